#include "forerun/models/classifier/classifier_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "forerun/models/classifier/classifier_file.h"
#include "forerun/models/internal/hf_fields.h"

namespace forerun {
namespace {

constexpr const char* kClassifier = "classifier";

}  // namespace

void check_classifier_config(const ClassifierConfig& c) {
  const auto within = [](const char* name, std::int64_t value, std::int64_t least,
                         std::int64_t most) {
    if (value >= least && value <= most) return;
    throw std::invalid_argument(
        fmt::format("classifier: {} is {}, expected {} to {}", name, value, least, most));
  };
  within("the side of an image", c.input, 8, 4096);
  within("channels", c.channels, 1, 1024);
  within("classes", c.classes, 2, 1 << 20);
  within("width", c.width, 8, 1024);
  within("features", c.features, 1, 1 << 14);
  if (c.width % 8 != 0) {
    throw std::invalid_argument(
        fmt::format("classifier: width {} is no multiple of 8, the groups of its norms", c.width));
  }
}

Result<ClassifierConfig> parse_classifier_config(const nlohmann::json& config) {
  internal::Fields f(config, kClassifier);
  if (f.text("architecture", "") != kClassifier) {
    return Error{
        "it does not describe a classifier of images; `forerun train classifier` makes one"};
  }
  ClassifierConfig c;
  c.input = f.integer("input_size");
  c.channels = f.integer("in_channels");
  c.classes = f.integer("num_classes");
  c.width = f.integer("width");
  c.features = f.integer("feature_size");
  if (!f.error().empty()) return Error{f.error()};
  try {
    check_classifier_config(c);
  } catch (const std::invalid_argument& e) {
    return Error{e.what()};
  }
  return c;
}

nlohmann::json classifier_config_json(const ClassifierConfig& c) {
  return {{"architecture", kClassifier}, {"input_size", c.input}, {"in_channels", c.channels},
          {"num_classes", c.classes},    {"width", c.width},      {"feature_size", c.features}};
}

}  // namespace forerun
