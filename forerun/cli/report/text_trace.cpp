#include "forerun/cli/report/text_trace.h"

#include <nlohmann/json.hpp>

#include "forerun/cli/report/page.h"

namespace forerun::cli {

using nlohmann::json;

std::string render_text_trace(const TextTracePage& page) {
  json rounds = json::array();
  for (const TextTracePage::Round& round : page.rounds) {
    json drafts = json::array();
    for (const TextTracePage::Node& node : round.drafts) {
      drafts.push_back(json::array({node.text, node.parent, node.kept}));
    }
    rounds.push_back({{"drafts", drafts},
                      {"own", round.own},
                      {"outputs", round.outputs},
                      {"drafter", round.drafter_ms},
                      {"target", round.target_ms}});
  }
  json facts = json::array();
  for (const auto& [name, value] : page.facts) facts.push_back(json::array({name, value}));
  return report::fill(report::kTextTracePage, {{"forerun", page.version},
                                               {"title", page.title},
                                               {"command", page.command},
                                               {"facts", facts},
                                               {"rounds", rounds}});
}

}  // namespace forerun::cli
