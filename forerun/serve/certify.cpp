#include "forerun/serve/certify.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forerun/text.h"

namespace forerun::serve {

nlohmann::json certificate_json(const Model& model, const GenerationRequest& request,
                                const std::string& id, const std::vector<Token>& given,
                                const std::function<bool()>& go_on) {
  using nlohmann::json;
  GenerateOptions options = request.options;
  options.trace = false;
  Listener listener;
  listener.go_on = go_on;
  const auto [text, certificate] =
      generate_certified(model, request.drafter, request.prompts.front(), options, listener);
  json differences = json::array();
  std::size_t ties = 0;
  for (const Difference& d : certificate.differences) {
    ties += d.tie ? 1 : 0;
    differences.push_back({{"position", d.position},
                           {"drafted", d.drafted},
                           {"plain", d.plain},
                           {"margin", d.one_ended ? json() : json(d.margin)},
                           {"tie", d.tie}});
  }
  return {{"object", "forerun.certificate"},
          {"answer", id.empty() ? json() : json(id)},
          {"same_text", id.empty() ? json() : json(text.tokens == given)},
          {"passed", certificate.passed()},
          {"verdict", certificate.verdict()},
          {"exact", certificate.exact},
          {"deterministic", certificate.deterministic},
          {"tokens", certificate.outputs},
          {"drafted_tokens", certificate.report.drafted},
          {"z", certificate.report.z},
          {"z_p", certificate.report.z_p},
          {"ks_p", certificate.report.ks_p},
          {"forbidden", certificate.report.forbidden},
          {"ties", ties},
          {"tie_margin", certificate.tie_margin},
          {"differences", std::move(differences)},
          {"drafter", request.drafter.name().substr(0, request.drafter.name().find(':'))},
          {"rule", name_of(options.rule)},
          {"temperature", options.sampling.temperature},
          {"seed", options.seed}};
}

}  // namespace forerun::serve
