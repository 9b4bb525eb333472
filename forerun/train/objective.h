#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "forerun/train/options.h"

namespace forerun {

/// Seed of what is held out and of the randomness of its examples, the same in every run.
inline constexpr std::uint64_t kHeldOutSeed = 0x4e1d0e7ULL;

/// A tensor that training changes.
struct Parameter {
  std::string name;   ///< unique, stable: the key in checkpoints
  at::Tensor value;   ///< float32, contiguous, a leaf with requires_grad; the master copy. All
                      ///< parameters are on one device, where the loss is computed
  double rate = 1.0;  ///< factor on the learning rate
  bool decay = true;  ///< weight decay applies (not to norms and biases)
};

/// Sums of a micro-batch over its supervised positions, never means, so micro-batches and ranks add
/// up to one ratio, the loss of the step: sum of `loss` / sum of `weight`.
struct LossSum {
  at::Tensor loss;  ///< scalar, differentiable: the weighted sum; undefined where nothing counts
  double weight = 0.0;          ///< sum of the weights, >= 0
  std::int64_t tokens = 0;      ///< processed, for the tokens per second
  std::vector<Figure> figures;  ///< further figures to show, by name; also sums
};

/// The subject of training: parameters, examples and a loss. The trainer (trainer.h) knows nothing
/// else.
///
/// All randomness of an example is keyed by (`seed`, example), never by the rank, the batch or the
/// order of calls, so a resumed or a distributed run computes the same.
class Objective {
 public:
  virtual ~Objective() = default;

  /// The same tensors in the same order at every call; the trainer writes into them.
  virtual std::vector<Parameter> parameters() = 0;
  /// Training examples, e.g. documents.
  virtual std::size_t size() const = 0;
  /// Examples that are never trained on; 0: no held-out loss.
  virtual std::size_t held_out() const = 0;

  /// @param examples  indices in [0, size()), never empty
  /// @param seed      of this run and epoch; the same example has other randomness in the next
  /// epoch
  virtual LossSum loss(std::span<const std::size_t> examples, std::uint64_t seed) = 0;
  /// The same for held-out examples, always with the same randomness; called without autograd.
  /// @param examples  indices in [0, held_out()), never empty
  virtual LossSum held_out_loss(std::span<const std::size_t> examples) = 0;
  /// Floating-point operations (2 per multiply-add) of the matrix products of `loss` on these
  /// examples and of its backward pass; for the reported rate.
  virtual double flops(std::span<const std::size_t> examples) const = 0;

  /// Everything besides the options that must be the same for a run to be resumed: the model, the
  /// data, the shape of the loss. Compared as text and shown if it differs: keep it to a line.
  virtual std::string fingerprint() const = 0;

  /// Writes the trained model under `folder`, each file complete or not at all.
  /// @param values  in the order of parameters(): averaged or current
  virtual void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
                    const nlohmann::json& provenance) = 0;
};

}  // namespace forerun
