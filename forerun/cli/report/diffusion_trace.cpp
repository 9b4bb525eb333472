#include "forerun/cli/report/diffusion_trace.h"

#include <nlohmann/json.hpp>

#include "forerun/cli/report/page.h"

namespace forerun::cli {

std::string render_diffusion_trace(const DiffusionTracePage& page) {
  using nlohmann::json;
  json steps = json::array(), facts = json::array();
  for (const auto& step : page.steps) {
    json filled = json::array();
    for (const auto& token : step) filled.push_back(json::array({token.place, token.text}));
    steps.push_back(std::move(filled));
  }
  for (const auto& [name, value] : page.facts) facts.push_back(json::array({name, value}));
  return report::fill(report::kDiffusionTracePage, {{"forerun", page.version},
                                                    {"title", page.title},
                                                    {"command", page.command},
                                                    {"facts", facts},
                                                    {"places", page.places},
                                                    {"steps", steps}});
}

}  // namespace forerun::cli
