// What a model's files recommend for sampling, as flags take it.

#include <fmt/format.h>

#include "forerun/cli/options.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

RecommendedSampling found_in(const std::string& path) {
  try {
    return recommended_sampling(path);
  } catch (const FormatError& e) {
    throw FormatError(
        fmt::format("{}; correct it, or leave it out with --generation-config none", e.what()));
  }
}

}  // namespace

void bind_generation_config(Command& command, std::string& use) {
  command.add(
      "--generation-config", use,
      "auto = temperature, top-k, top-p, min-p and repetition penalty that no flag gives are "
      "those that the model's publisher recommends, in its generation_config.json or the "
      "keys general.sampling.* of its GGUF file; none = they are not",
      {.one_of = {"auto", "none", "vllm"}, .shows = "auto|none"});
}

std::string described(const RecommendedSampling& r) {
  std::string out;
  const auto say = [&out](const char* name, const auto& value) {
    if (value) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, *value);
  };
  say("temperature", r.temperature);
  say("top-k", r.top_k);
  say("top-p", r.top_p);
  say("min-p", r.min_p);
  say("repetition penalty", r.repetition_penalty);
  return out;
}

RecommendedSampling take_recommended(SamplingParams& sampling, LogitChanges& changes,
                                     const Model& model, const Command& command,
                                     const std::string& use) {
  if (use != "auto") return {};
  RecommendedSampling r = found_in(model.path());
  const auto take = [&command](auto& recommended, auto& value, const char* flag) {
    if (command.given(flag)) recommended.reset();
    if (recommended) value = *recommended;
  };
  take(r.temperature, sampling.temperature, "--temp");
  take(r.top_k, sampling.top_k, "--top-k");
  take(r.top_p, sampling.top_p, "--top-p");
  take(r.min_p, sampling.min_p, "--min-p");
  take(r.repetition_penalty, changes.repetition_penalty, "--repetition-penalty");
  if (r.none()) return r;
  note(styled(stderr, Style::kDim,
              fmt::format("{}, as {} recommends (--generation-config none: without)", described(r),
                          printable(r.file))));
  return r;
}

}  // namespace forerun::cli
