#include "forerun/cli/report/image_trace.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "forerun/cli/report/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) -> std::uint32_t {
      return i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U;
    };
    const std::uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kLetters[word >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

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
