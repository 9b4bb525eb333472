#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/models/internal/hf_fields.h"
#include "forerun/models/mar/mar_file.h"

namespace forerun {
namespace {

using internal::Fields;

template <class T>
using Names = std::array<std::pair<const char*, T>, 2>;

constexpr Names<MarForm> kForms{{{"causal", MarForm::kCausal}, {"masked", MarForm::kMasked}}};
constexpr Names<MarPrediction> kPredictions{
    {{"velocity", MarPrediction::kVelocity}, {"noise", MarPrediction::kNoise}}};
constexpr Names<MarModulation> kModulations{
    {{"joint", MarModulation::kJoint}, {"separate", MarModulation::kSeparate}}};

template <class T>
T named(Fields& f, const char* key, const Names<T>& names) {
  const std::string found = f.text(key, std::nullopt);
  for (const auto& [name, value] : names) {
    if (found == name) return value;
  }
  f.fail(fmt::format("'{}' is {}, supported are '{}' and '{}'", key, quote(found), names[0].first,
                     names[1].first));
  return names[0].second;
}

template <class T>
const char* name_of(T value, const Names<T>& names) {
  return value == names[0].second ? names[0].first : names[1].first;
}

// A list of numbers, none if it is absent.
template <class T>
std::vector<T> list(Fields& f, const char* key, const nlohmann::json* found) {
  constexpr std::size_t kMost = 1 << 16;
  if (found == nullptr) return {};
  std::vector<T> out;
  if (found->is_array() && found->size() <= kMost) {
    for (const nlohmann::json& n : *found) {
      if (std::is_integral_v<T> ? !n.is_number_integer() : !n.is_number()) break;
      out.push_back(n.get<T>());
    }
    if (out.size() == found->size()) return out;
  }
  f.fail(fmt::format("'{}' is no list of numbers", key));
  return {};
}

MarCalibration read_calibration(Fields& f) {
  const nlohmann::json* const found = f.find("calibration");
  if (found == nullptr) return {};
  const Fields inner(*found);
  return {.times = list<std::int64_t>(f, "calibration.times", inner.find("times")),
          .errors = list<double>(f, "calibration.errors", inner.find("errors"))};
}

MarConfig read(Fields& f) {
  MarConfig c;
  c.form = named(f, "form", kForms);
  c.side = f.integer("side");
  c.channels = f.integer("channels");
  c.patch = f.integer("patch_size");
  c.classes = f.integer("num_classes");
  c.hidden = f.integer("hidden_size");
  c.heads = f.integer("num_heads");
  c.mlp = f.integer("mlp_size");
  c.depth = f.integer("depth");
  c.decoder_depth = f.integer("decoder_depth", 0);
  c.buffer = f.integer("buffer_size", 0);
  c.head_width = f.integer("head_width");
  c.head_blocks = f.integer("head_blocks");
  c.prediction = named(f, "prediction", kPredictions);
  c.modulation = named(f, "modulation", kModulations);
  c.order = list<std::int64_t>(f, "order", f.find("order"));
  c.mean = f.number("token_mean", 0.0);
  c.scale = f.number("token_scale", 1.0);
  c.noise = f.number("token_noise", 0.0);
  c.x0_low = f.number("x0_low", 0.0);
  c.x0_high = f.number("x0_high", 0.0);
  c.calibration = read_calibration(f);
  c.follows = f.text("follows", "");
  return c;
}

}  // namespace

bool is_mar(const nlohmann::json& config) {
  Fields f(config);
  return f.text("architecture", "") == "mar";
}

Result<MarConfig> parse_mar_config(const nlohmann::json& config) {
  if (!is_mar(config)) return Error{"it describes another kind of network, not MAR"};
  Fields f(config, "MAR network");
  MarConfig c = read(f);
  if (!f.error().empty()) return Error{f.error()};
  try {
    check_mar_config(c);
  } catch (const std::invalid_argument& e) {
    return Error{e.what()};
  }
  return c;
}

nlohmann::json mar_config_json(const MarConfig& c) {
  nlohmann::json out = {{"architecture", "mar"},
                        {"form", name_of(c.form, kForms)},
                        {"side", c.side},
                        {"channels", c.channels},
                        {"patch_size", c.patch},
                        {"num_classes", c.classes},
                        {"hidden_size", c.hidden},
                        {"num_heads", c.heads},
                        {"mlp_size", c.mlp},
                        {"depth", c.depth},
                        {"head_width", c.head_width},
                        {"head_blocks", c.head_blocks},
                        {"prediction", name_of(c.prediction, kPredictions)},
                        {"modulation", name_of(c.modulation, kModulations)},
                        {"token_mean", c.mean},
                        {"token_scale", c.scale},
                        {"token_noise", c.noise},
                        {"x0_low", c.x0_low},
                        {"x0_high", c.x0_high}};
  if (c.form == MarForm::kMasked) {
    out["decoder_depth"] = c.decoder_depth;
    out["buffer_size"] = c.buffer;
  }
  if (!c.order.empty()) out["order"] = c.order;
  if (!c.follows.empty()) out["follows"] = c.follows;
  if (!c.calibration.empty()) {
    out["calibration"] = {{"times", c.calibration.times}, {"errors", c.calibration.errors}};
  }
  return out;
}

}  // namespace forerun
