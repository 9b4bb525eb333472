#include "forerun/cli/report/image_trace.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "forerun/base/base64.h"
#include "forerun/cli/report/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;

std::string cells(const ImageTracePage& page) {
  std::string out(page.steps, ' ');
  for (const ImageTracePage::Round& r : page.rounds) {
    for (std::uint32_t i = 0; i < r.emitted && r.first + i < page.steps; ++i) {
      const bool own = i < r.given || (i == r.given + r.kept && r.kept == r.drafted);
      out[r.first + i] = own ? 't' : i < r.given + r.kept ? 'k' : 'r';
    }
  }
  return out;
}

json points(const std::vector<std::pair<float, float>>& chain) {
  // Three digits: more than a page can show.
  const auto rounded = [](float v) { return std::round(static_cast<double>(v) * 1e3) / 1e3; };
  json out = json::array();
  for (const auto& [x, y] : chain) out.push_back({rounded(x), rounded(y)});
  return out;
}

json tokens_json(const ImageTracePage& page) {
  json out = json::array();
  for (const auto& t : page.tokens) {
    out.push_back({{"round", t.round},
                   {"place", t.place},
                   {"fate", std::string(1, t.fate)},
                   {"chain", points(t.chain)},
                   {"draft", points(t.draft)},
                   {"together", t.together}});
  }
  return out;
}

}  // namespace

std::string render_image_trace(const ImageTracePage& page) {
  json rounds = json::array(), previews = json::array(), facts = json::array();
  for (const auto& r : page.rounds) {
    rounds.push_back({r.first, r.given, r.drafted, r.kept, r.emitted});
  }
  for (const auto& p : page.previews) {
    previews.push_back({{"step", p.step}, {"png", base64(p.png)}});
  }
  for (const auto& [name, value] : page.facts) facts.push_back(json::array({name, value}));
  json data = {{"forerun", page.version}, {"title", page.title}, {"command", page.command},
               {"facts", facts},          {"rounds", rounds},    {"previews", previews}};
  if (page.side == 0) {
    data.update({{"steps", page.steps}, {"cells", cells(page)}});
    return report::fill(report::kImageTracePage, data);
  }
  data.update({{"side", page.side}, {"tokens", tokens_json(page)}});
  return report::fill(report::kTokenTracePage, data);
}

}  // namespace forerun::cli
