#pragma once

/// Text generation: load a Model, pick a Drafter, generate, certify.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/certificate.h"
#include "forerun/core/draft_length_report.h"
#include "forerun/core/recommended_sampling.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/statistics.h"
#include "forerun/core/token.h"
#include "forerun/engine/event.h"
#include "forerun/generate_options.h"
#include "forerun/model.h"

#pragma GCC visibility push(default)
namespace forerun {

/// How a text came about, round by round.
struct TextTrace {
  using Round = RoundTrace;
  std::vector<Round> rounds;
};

struct Generated : TextResult {
  Rule rule = Rule::kMaximal;
  bool exact = true;  ///< rule and drafter keep the target's law
  std::uint64_t seed = 0;
  std::optional<DraftLengthReport> draft_length;  ///< the controller's estimates
  std::optional<TextTrace> trace;                 ///< if the options want it

  double tokens_per_second() const {
    return seconds > 0.0 ? static_cast<double>(tokens.size()) / seconds : 0.0;
  }
};

/// What the files of a model recommend: generation_config.json of a folder, the keys
/// general.sampling.* of a GGUF file. It is for callers to use: no call here takes it by itself.
/// @param path  as Model::load takes it
/// @throws FormatError  a value that is no number, or out of range: the message names it
RecommendedSampling recommended_sampling(const std::string& path);

/// Generates one text. @throws UsageError  empty prompt, prompt beyond the context, bad sampling
/// options, ratio-on-search with a drafter without scores
Generated generate(const Model& target, const Drafter& drafter, std::span<const Token> prompt,
                   const GenerateOptions& options, const Listener& listener = {});

/// Generates a text for every prompt, all in one batch. The i-th draws the random numbers that
/// `generate` draws with request = options.request + i, whatever the other texts; the texts are
/// equal up to ties, since products over other numbers of rows round differently.
std::vector<Generated> generate_batch(const Model& target, const Drafter& drafter,
                                      std::span<const std::vector<Token>> prompts,
                                      const GenerateOptions& options,
                                      const Listener& listener = {});

class TextRun;

/// Generation in slices: `generate_batch` for callers with other work in between, such as serving
/// other requests, or timing two drafters on the same text in turns.
class Generation {
 public:
  /// @throws UsageError  as `generate`
  Generation(const Model& target, const Drafter& drafter,
             std::span<const std::vector<Token>> prompts, const GenerateOptions& options,
             const Listener& listener = {});
  ~Generation();
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;

  /// Whole rounds, until there are at least `outputs` more over all texts, all texts have ended, or
  /// the listener stops it. The first call includes the passes over the prompts.
  /// @returns false once all texts have ended, or if the listener stopped it
  bool advance(std::size_t outputs);
  std::size_t outputs() const;  ///< so far, over all texts
  /// The texts so far; their seconds exclude the time between calls of `advance`. Call it once, at
  /// the end.
  std::vector<Generated> finish();

 private:
  std::unique_ptr<TextRun> run_;
};

/// Generates up to `tokens` outputs over the prompts and scores them again by undrafted passes of
/// the target. After an interruption it covers the outputs scored before.
/// @param per_prompt  outputs per prompt at most
Certificate certify(const Model& target, const Drafter& drafter,
                    std::span<const std::vector<Token>> prompts, std::size_t tokens,
                    std::size_t per_prompt, const GenerateOptions& options,
                    const Listener& listener = {});

/// Generates one text and certifies it.
std::pair<Generated, Certificate> generate_certified(const Model& target, const Drafter& drafter,
                                                     std::span<const Token> prompt,
                                                     const GenerateOptions& options,
                                                     const Listener& listener = {});

/// Where `drafted` first departs from `plain`, with the target's margin there; nothing if they are
/// equal, or `go_on` was false.
/// @param go_on  queried between the passes that measure the margin
std::optional<Difference> first_difference(const Model& target, std::span<const Token> prompt,
                                           std::span<const Token> plain,
                                           std::span<const Token> drafted,
                                           const GenerateOptions& options,
                                           const std::function<bool()>& go_on = {});

/// Float32 scores of every position of a text.
struct Logits {
  std::size_t rows = 0, vocab = 0;
  std::vector<float> values;  ///< [rows, vocab]; row i predicts token i + 1
};
/// @param go_on  asked between passes of 64 tokens; false ends it with the rows that are there
Logits logits(const Model& model, std::span<const Token> tokens,
              const std::function<bool()>& go_on = {});
/// Writes them as a NumPy file, complete or not at all.
void save_npy(const Logits& logits, const std::string& path);

/// A token of a text, scored after those before it.
struct TokenScore {
  Token token = 0;
  double log_probability = 0.0;  ///< nats, of the softmax at temperature 1 without limits
  std::vector<std::pair<Token, double>> top;  ///< the likeliest tokens there, in falling order
};
/// Scores all tokens of a text but the first, by the passes of `logits`.
/// @param top    number of the likeliest tokens to report
/// @param go_on  asked between passes; false ends it with the scores that are there
/// @throws UsageError  a token outside the vocabulary, more tokens than the context holds
std::vector<TokenScore> score(const Model& model, std::span<const Token> tokens,
                              std::size_t top = 0, const std::function<bool()>& go_on = {});

/// Options of `measure_cost`.
struct CostOptions {
  std::vector<std::int64_t> rows = {1, 2, 4, 8, 16, 32};  ///< tokens of a pass, of one sequence
  std::size_t prefix = 200;                               ///< tokens before them
  int sequences = 1;            ///< sequences of a pass, each with that prefix and those tokens
  int repeats = 5;              ///< their median counts; sizes take turns
  std::function<bool()> go_on;  ///< false ends the measurement with the results so far
};

/// The cost of a pass of the target on this machine, by its number of rows.
struct CostCurve {
  struct Point {
    std::int64_t rows = 0;
    double seconds = 0.0;  ///< median
  };
  std::vector<Point> points;
  double weight_bytes = 0.0;      ///< of the weights that a pass reads
  double cache_bytes = 0.0;       ///< of keys, values and states that a pass reads
  double bytes_per_second = 0.0;  ///< of a plain read of memory on the same threads
  int threads = 0;
  /// Share of the passes before which the threads had a common cache (`threads_share_cache`).
  std::optional<double> common_cache;
  bool interrupted = false;

  /// No pass can be faster: every weight is read once.
  double memory_limit() const {
    return bytes_per_second > 0.0 ? (weight_bytes + cache_bytes) / bytes_per_second : 0.0;
  }
};
/// @throws UsageError  rows, prefix or sequences out of range
CostCurve measure_cost(const Model& model, const CostOptions& options = {});

/// Distance of one model's laws from another's.
struct Divergence {
  std::size_t tokens = 0;  ///< places compared
  double kl = 0.0;         ///< mean of KL(reference || other), nats a token, at temperature 1
  double worst_kl = 0.0;
  double top1 = 0.0;  ///< share of places with the same likeliest token
};
/// Compares two models position by position on texts that `other` writes (the texts it will be used
/// on). Both are scored by plain passes.
/// @param tokens   over all prompts; options.max_tokens for each at most
/// @throws UsageError  vocabularies of different sizes
Divergence compare(const Model& reference, const Model& other,
                   std::span<const std::vector<Token>> prompts, std::size_t tokens,
                   const GenerateOptions& options, const Listener& listener = {});

}  // namespace forerun
#pragma GCC visibility pop
