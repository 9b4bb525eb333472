#pragma once

/// What all of the public API shares: errors, threads, the machine, model files.

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

/// A request that cannot be met as it stands: a wrong option, a prompt beyond the context, a
/// drafter of another vocabulary. The message says what to change. (Broken files throw FormatError,
/// other failures std::runtime_error.)
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Threads for tensor work in this process; 0 leaves the number as it is (at first, one a core).
void set_threads(int threads);

/// The precision that a model is asked to be computed in. Nothing is `auto`: the fastest that the
/// model and this processor allow. That never fails; a precision that is asked for by name and
/// cannot be had is a UsageError that says what can.
using AskedPrecision = std::optional<Precision>;
inline constexpr AskedPrecision kAutoPrecision = std::nullopt;

/// What a model is computed in, and why in a few words ("this processor lacks AVX-512 VNNI").
struct ChosenPrecision {
  Precision precision = Precision::kF32;
  std::string reason;
  bool fastest = true;  ///< false: `auto` would be a faster one on another processor or model
};
/// What `auto` is for language models, and for a Diffusion Transformer of common sizes, here.
ChosenPrecision auto_text_precision();
ChosenPrecision auto_image_precision();

/// The processor, and what the int8 engine makes of it.
struct Machine {
  std::string cpu;
  bool int8 = false;    ///< AVX-512 VNNI is there; without it language models have no int8
  std::string kernels;  ///< in words
  int threads = 0;
};
Machine machine();

/// Floating-point operations a second of a large matrix product, the best of a few: what a rate of
/// training can be held against.
/// @param bf16     bfloat16 matrices; else float32
/// @param threads  0: one a core
double product_rate(bool bf16, int threads = 0);

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
