#include "forerun/serve/image_request.h"

#include <fmt/format.h>

#include <charconv>

#include "forerun/serve/api_error.h"
#include "forerun/serve/json.h"
#include "forerun/serve/request_fields.h"

namespace forerun::serve {
namespace {

constexpr std::int64_t kMostImages = 10, kMostPartial = 20, kMostSteps = 1000;

// The models know classes by number, and no words.
std::int64_t read_label(const Fields& fields, std::int64_t classes) {
  const std::string prompt = fields.text("prompt").value_or("");
  std::int64_t label = -1;
  const char* const end = prompt.data() + prompt.size();
  const auto [stop, error] = std::from_chars(prompt.data(), end, label);
  if (error == std::errc() && stop == end && label >= 0 && label < classes) return label;
  throw bad_field(
      "prompt", fmt::format("is no class of the model: send one of \"0\" to \"{}\"", classes - 1));
}

// Fields that have one value here.
void check_fixed(const Fields& fields, std::int64_t side) {
  const std::string size = fmt::format("{0}x{0}", side);
  const std::pair<const char*, std::string> fixed[] = {
      {"response_format", "b64_json"}, {"output_format", "png"}, {"size", size}};
  for (const auto& [name, value] : fixed) {
    const auto given = fields.text(name);
    if (!given || *given == value || *given == "auto") continue;
    throw bad_field(name, fmt::format("is not supported: send \"{}\", or leave it out", value));
  }
}

}  // namespace

ImageRequest parse_images(const nlohmann::json& body, const ServedImages& served) {
  const Fields fields(body);
  check_model(fields, served.id);
  check_fixed(fields, served.decoder.side());
  ImageRequest r;
  r.wish.label = read_label(fields, served.classes);
  r.wish.seed = read_seed(fields);
  r.wish.steps = fields.whole("steps", 1, kMostSteps);
  r.wish.guidance = fields.number("guidance", 0.0, 100.0);
  if (const nlohmann::json* speculative = fields.find("speculative")) {
    r.wish.drafts = !Fields(*speculative, "speculative.").flag("off", false);
  }
  r.n = static_cast<std::size_t>(fields.whole("n", 1, kMostImages).value_or(1));
  r.stream = fields.flag("stream", false);
  r.partial_images =
      static_cast<std::size_t>(fields.whole("partial_images", 0, kMostPartial).value_or(0));
  if (r.partial_images > 0 && !r.stream) {
    throw bad_field("partial_images", "is for streams: send \"stream\": true too");
  }
  // One more than is shown: the first comes before any step.
  r.wish.previews = r.partial_images > 0 ? r.partial_images + 1 : 0;
  return r;
}

}  // namespace forerun::serve
