#pragma once

/// Texts written by a diffusion language model: many places at once, in a chosen number of passes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/common.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/token.h"
#include "forerun/model.h"

#pragma GCC visibility push(default)
namespace forerun {

/// True if `path` holds a published diffusion language model (Dream, LLaDA); reads its metadata
/// only.
bool is_diffusion_language_model(const std::string& path) noexcept;

/// A diffusion language model with its tokenizer. Copies share the weights.
class DiffusionLanguageModel {
 public:
  /// @param path  a GGUF file (dream, llada), or a Hugging Face folder
  /// @throws UsageError   no such path, or a precision that this processor does not support
  /// @throws FormatError  broken file, another kind of model, no mask token
  static DiffusionLanguageModel load(const std::string& path,
                                     PrecisionRequest precision = kAutoPrecision);

  /// As those of Model.
  std::vector<Token> encode(std::string_view text) const;
  std::vector<Token> encode_chat(std::span<const Message> messages) const;
  std::string decode(std::span<const Token> tokens) const;
  const std::string& path() const;
  const ChosenPrecision& chosen_precision() const;
  std::size_t context() const;

  struct Impl;

 private:
  friend struct Access;
  explicit DiffusionLanguageModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

struct DiffusionTextOptions {
  std::int64_t length = 64;  ///< tokens that are written; what follows an end token is cut
  std::int64_t steps = 0;    ///< passes; 0: as many as tokens
  /// Which masked places a step fills: origin (any, at random), maskgit-plus (the likeliest),
  /// topk-margin, entropy, or low-confidence (the likeliest, the same number in every step).
  std::string unmasking = "entropy";
  std::int64_t block = 0;   ///< of low-confidence: places filled before those after them; 0 = all
  SamplingParams sampling;  ///< greedy: the likeliest token
  std::uint64_t seed = 0;
  bool ignore_end = false;
};

/// Called after every step with the places so far; -1 where nothing stands yet.
struct DiffusionTextListener {
  std::function<void(std::int64_t step, std::span<const Token> places)> on_step;
  std::function<bool()> go_on;  ///< false ends the run after the step
};

struct DiffusedText {
  std::string text;
  std::vector<Token> tokens;
  std::int64_t steps = 0;  ///< passes that were made
  double seconds = 0.0;
  bool interrupted = false;  ///< then the text is empty: its places are not all filled
};

/// @throws UsageError  an option out of range, or more positions than the context
DiffusedText generate_by_diffusion(const DiffusionLanguageModel& model,
                                   std::span<const Token> prompt,
                                   const DiffusionTextOptions& options,
                                   const DiffusionTextListener& listener = {});

}  // namespace forerun
#pragma GCC visibility pop
