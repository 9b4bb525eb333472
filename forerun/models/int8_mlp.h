#pragma once

#include <cstdint>

#include "forerun/models/decoder_config.h"
#include "forerun/models/int8_linear.h"
#include "forerun/models/int8_lora.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/linear.h"

namespace forerun {

/// A gated MLP in int8: down(activation(gate x) * up x).
class Int8Mlp {
 public:
  Int8Mlp() = default;
  /// @param clamp  of Activation::kClamped
  static Int8Mlp pack(const Linear& gate, const Linear& up, const Linear& down,
                      Activation activation, Arena& arena, const ClampedGate& clamp = {});

  /// The order of gates and ups in their packing, from all gates followed by all ups.
  static OutputOrder by_turns(std::int64_t intermediate);

  /// Scratch memory of a thread, in floats.
  static std::int64_t scratch_size(std::int64_t intermediate) noexcept;
  std::int64_t intermediate() const noexcept { return down_.inputs(); }
  std::int64_t bytes() const noexcept { return gate_up_.bytes() + down_.bytes(); }

  /// Memory for the rows of a pass between its phases.
  struct Gated {
    float* values;          ///< [rows, intermediate]
    kernel::Int8Rows rows;  ///< the same as int8
  };

  struct Pass {
    kernel::Int8Rows x;  ///< [rows, hidden]
    Gated gated;
    std::int64_t rows = 0;
    float* scratch = nullptr;  ///< of this thread
    float* out = nullptr;      ///< [rows, stride]; added to if `add`
    std::int64_t stride = 0;
    bool add = false;
    const std::uint8_t* next = nullptr;  ///< what this thread reads next, to prefetch; or null
    const Int8AdaptedRows* adapted =
        nullptr;  ///< of `rows`, which meet adapters of `layer`; or null
    std::int64_t layer = 0;
  };
  /// The rows in the form that it reads.
  kernel::Int8Rows in_form(const kernel::Int8Rows& x) const noexcept { return gate_up_.in_form(x); }
  /// Three phases of a job. The phase before it lowers adapted rows of `x`, which are in_form.
  void run(ThreadTeam::Worker& worker, const Pass& pass) const;
  /// The pieces of these phases, for MLPs that share them. Of the first: gate_tasks() pieces.
  /// @param next  what this thread reads next, to prefetch; or null
  void gate(const Pass& pass, std::int64_t task, const std::uint8_t* next) const;
  /// Of the second: a row.
  void round(const Pass& pass, std::int64_t row) const;
  /// Of the third: outputs of panels [first, last).
  void down(const Pass& pass, std::int64_t first, std::int64_t last,
            const std::uint8_t* next) const;
  std::int64_t gate_tasks() const noexcept;
  std::int64_t down_panels() const noexcept { return down_.panels(); }
  /// The weights that a thread reads first.
  const std::uint8_t* first_panel(const ThreadTeam::Worker& worker) const noexcept {
    return gate_up_.first_panel(worker);
  }

 private:
  // A row of a task: gates, with their ups behind them.
  void activate(const float* gates, std::int64_t width, float* out, bool far) const;

  Int8Matrix gate_up_;  // alternately 96 gates and their 96 ups, padded with zeros
  Int8Matrix down_;
  Activation activation_ = Activation::kSilu;
  float slope_ = 0.0F, limit_ = 0.0F;  // of clamped gates
};

}  // namespace forerun
