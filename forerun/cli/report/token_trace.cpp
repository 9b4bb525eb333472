#include "forerun/cli/report/token_trace.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "forerun/base/base64.h"
#include "forerun/cli/report/page.h"

namespace forerun::cli {
namespace {

nlohmann::json points(const std::vector<std::pair<float, float>>& chain) {
  // Three digits: more than a page can show.
  const auto rounded = [](float v) { return std::round(static_cast<double>(v) * 1e3) / 1e3; };
  nlohmann::json out = nlohmann::json::array();
  for (const auto& [x, y] : chain) out.push_back({rounded(x), rounded(y)});
  return out;
}

}  // namespace

std::string render_token_trace(const TokenTracePage& page) {
  using nlohmann::json;
  json tokens = json::array(), rounds = json::array(), images = json::array();
  for (const auto& t : page.tokens) {
    tokens.push_back({{"round", t.round},
                      {"place", t.place},
                      {"fate", std::string(1, t.fate)},
                      {"chain", points(t.chain)},
                      {"draft", points(t.draft)},
                      {"together", t.together}});
  }
  for (const auto& r : page.rounds) rounds.push_back({r.first, r.drafted, r.kept, r.emitted});
  for (const auto& i : page.images) {
    images.push_back({{"tokens", i.tokens}, {"png", base64(i.png)}});
  }
  json facts = json::array();
  for (const auto& [name, value] : page.facts) facts.push_back(json::array({name, value}));
  return report::fill(report::kTokenTracePage, {{"forerun", page.version},
                                                {"title", page.title},
                                                {"command", page.command},
                                                {"facts", facts},
                                                {"side", page.side},
                                                {"tokens", tokens},
                                                {"rounds", rounds},
                                                {"images", images}});
}

}  // namespace forerun::cli
