#include "forerun/cli/report/image_trace.h"

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

}  // namespace

std::string render_image_trace(const ImageTracePage& page) {
  json rounds = json::array(), predictions = json::array();
  for (const auto& r : page.rounds) {
    rounds.push_back({r.first, r.given, r.drafted, r.kept, r.emitted});
  }
  for (const auto& p : page.predictions) {
    predictions.push_back({{"step", p.step}, {"png", base64(p.png)}});
  }
  json facts = json::array();
  for (const auto& [name, value] : page.facts) facts.push_back(json::array({name, value}));
  return report::fill(report::kImageTracePage, {{"forerun", page.version},
                                                {"title", page.title},
                                                {"command", page.command},
                                                {"facts", facts},
                                                {"steps", page.steps},
                                                {"cells", cells(page)},
                                                {"rounds", rounds},
                                                {"predictions", predictions}});
}

}  // namespace forerun::cli
