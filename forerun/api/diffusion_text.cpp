#include "forerun/diffusion_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/load_diffusion_model.h"
#include "forerun/api/load_text_model.h"
#include "forerun/models/diffusion_lm/denoise.h"

namespace forerun {

struct DiffusionLanguageModel::Impl {
  std::shared_ptr<const Model::Impl> text;  // tokenizer and the like; its network is in `passes`
  std::shared_ptr<const DiffusionPasses> passes;
};

namespace {

std::optional<Unmasking> unmasking_named(const std::string& name) {
  static const std::map<std::string, Unmasking> kNames = {
      {"origin", Unmasking::kOrigin},
      {"maskgit-plus", Unmasking::kMaskgitPlus},
      {"topk-margin", Unmasking::kTopkMargin},
      {"entropy", Unmasking::kEntropy},
      {"low-confidence", Unmasking::kLowConfidence}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

DenoiseOptions denoise_options(const DiffusionTextOptions& o) {
  const auto unmasking = unmasking_named(o.unmasking);
  if (!unmasking) {
    throw UsageError(fmt::format(
        "no way of unmasking is called '{}': origin, maskgit-plus, topk-margin, entropy and "
        "low-confidence are",
        o.unmasking));
  }
  return {.length = o.length,
          .steps = o.steps > 0 ? o.steps : o.length,
          .block = o.block,
          .unmasking = *unmasking,
          .sampling = o.sampling,
          .seed = o.seed};
}

}  // namespace

bool is_diffusion_language_model(const std::string& path) noexcept {
  try {
    return holds_diffusion_model(path);
  } catch (const std::exception&) {
    return false;
  }
}

DiffusionLanguageModel DiffusionLanguageModel::load(const std::string& path,
                                                    PrecisionRequest precision) {
  DiffusionModelFile file = load_diffusion_model(path, precision);
  auto impl = std::make_shared<Impl>();
  impl->text = std::move(file.text);
  impl->passes = std::make_shared<const DiffusionPasses>(std::move(file.network));
  return DiffusionLanguageModel(std::move(impl));
}

std::vector<Token> DiffusionLanguageModel::encode(std::string_view text) const {
  return impl_->text->tokenizer.encode_prompt(text, Special::kParse);
}

std::vector<Token> DiffusionLanguageModel::encode_chat(std::span<const Message> messages) const {
  return forerun::encode_chat(*impl_->text, messages, {});
}

std::string DiffusionLanguageModel::decode(std::span<const Token> tokens) const {
  return impl_->text->tokenizer.decode(tokens);
}

const std::string& DiffusionLanguageModel::path() const { return impl_->text->path; }
const ChosenPrecision& DiffusionLanguageModel::chosen_precision() const {
  return impl_->text->precision;
}
std::size_t DiffusionLanguageModel::context() const {
  return static_cast<std::size_t>(impl_->passes->context());
}

DiffusedText generate_by_diffusion(const DiffusionLanguageModel& model,
                                   std::span<const Token> prompt,
                                   const DiffusionTextOptions& options,
                                   const DiffusionTextListener& listener) {
  const DenoiseOptions denoising = denoise_options(options);
  const DiffusionLanguageModel::Impl& impl = impl_of(model);
  if (prompt.empty()) throw UsageError("an empty prompt: the model needs a token to begin with");
  const auto begun = std::chrono::steady_clock::now();
  DiffusedText out;
  try {
    out.tokens = denoise(*impl.passes, prompt, denoising,
                         [&](std::int64_t step, std::span<const Token> places) {
                           out.steps = step + 1;
                           if (listener.on_step) listener.on_step(step, places);
                           out.interrupted = listener.go_on && !listener.go_on();
                           return !out.interrupted;
                         });
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (std::find(out.tokens.begin(), out.tokens.end(), kMaskedToken) != out.tokens.end()) {
    out.tokens.clear();
    return out;
  }
  const auto end = std::find_if(out.tokens.begin(), out.tokens.end(), [&](Token t) {
    return !options.ignore_end && impl.text->end_tokens.contains(t);
  });
  out.tokens.erase(end, out.tokens.end());
  out.text = model.decode(out.tokens);
  return out;
}

}  // namespace forerun
