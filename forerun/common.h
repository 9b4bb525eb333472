#pragma once

/// Shared by the whole public API: errors, threads, the machine, model files.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "forerun/base/format_error.h"
#include "forerun/tensor/precision.h"

#pragma GCC visibility push(default)
namespace forerun {

/// A request that cannot be met: a wrong option, a prompt beyond the context, a drafter of another
/// vocabulary. The message says what to change. (Broken files throw FormatError, other failures
/// std::runtime_error.)
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Threads for tensor work in this process; 0 leaves the number as it is (at first, one a core).
/// @throws UsageError  fewer than 0, more than 1,024
void set_threads(int threads);

/// The requested precision of a model. Nothing means `auto`: the fastest that the model and this
/// processor support, which never fails. A named precision that is not available is a UsageError
/// that names the available ones.
using PrecisionRequest = std::optional<Precision>;
inline constexpr PrecisionRequest kAutoPrecision = std::nullopt;

/// The precision of a model, with a short reason ("this processor lacks AVX2").
struct ChosenPrecision {
  Precision precision = Precision::kF32;
  std::string reason;
  bool fastest = true;  ///< false: `auto` is faster on some other processor or model
};
/// What the passes of a language model mostly compute.
enum class PassRows : std::uint8_t {
  kFew,   ///< tokens of one text, or of a few: generation
  kMany,  ///< whole texts, or many at a time: training, distillation. `auto` is int8 where it can
          ///< be had, whatever the file: the run resumes on other processors
};
/// What `auto` chooses here for the model at `path`: a language model, an image-token model, or a
/// Diffusion Transformer of common sizes. Loading with `kAutoPrecision` chooses as for few rows.
/// @param rows  language models only
ChosenPrecision auto_precision(const std::string& path, PassRows rows = PassRows::kFew);

/// The processor, and how the int8 engine uses it.
struct Machine {
  std::string cpu;
  bool int8 = false;    ///< has AVX2, FMA and F16C, which int8 language models require
  std::string kernels;  ///< in words
  int threads = 0;
};
Machine machine();

/// Whether the threads of passes run on cores with a common cache at the moment, by how long one
/// waits for what another writes; measured again every 0.1 s. Hosts move the cores of virtual
/// machines: without a common cache passes of many rows take longer, and memory is often faster.
/// @return  none: one thread, or a processor for which it is not measured
std::optional<bool> threads_share_cache();

/// How often the threads had a common cache, of the times at which it was asked.
class CommonCache {
 public:
  void ask();  ///< `threads_share_cache`
  CommonCache& operator+=(const CommonCache& other) noexcept {
    asked_ += other.asked_;
    common_ += other.common_;
    return *this;
  }
  /// In [0, 1]; nothing where it is not measured.
  std::optional<double> share() const noexcept {
    return asked_ > 0.0 ? std::optional(common_ / asked_) : std::nullopt;
  }

 private:
  double asked_ = 0.0, common_ = 0.0;
};

/// Floating-point operations a second of a large matrix product, the best of a few: the reference
/// for a training rate.
/// @param bf16     bfloat16 matrices; else float32
/// @param threads  0: one a core
/// @param device   as TrainOptions::device
/// @throws UsageError  no such device
double product_rate(bool bf16, int threads = 0, const std::string& device = "cpu");

/// What a model file holds, as lines of (name, value); reads metadata only.
struct FileInfo {
  std::vector<std::pair<std::string, std::string>> facts;
  struct TensorLine {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };
  std::vector<TensorLine> tensors;
};
FileInfo inspect(const std::string& path);

}  // namespace forerun
#pragma GCC visibility pop
