#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/models/mar/mar_network.h"
#include "forerun/models/mar/mar_schedule.h"

namespace forerun {

/// What of one token's chain does not depend on its states: how its condition modulates the head,
/// with and without the class, and the guidance. Made by MarHead::prepare.
class MarCondition {
 public:
  bool guided() const noexcept { return !none_.empty(); }

 private:
  friend class MarHead;
  double guidance_ = 1.0;
  // Modulations: [pieces * width], or of each transition where the head is modulated jointly.
  std::vector<float> given_, none_;
};

/// The diffusion head with the way tokens are sampled from it: what the Gaussians of a token's
/// chain are. Rows and threads as MarNetwork.
class MarHead {
 public:
  /// @throws std::invalid_argument  as MarSchedule
  MarHead(std::shared_ptr<const MarNetwork> network, const MarSampling& sampling);

  const MarSchedule& schedule() const noexcept { return schedule_; }
  std::int64_t transitions() const noexcept { return schedule_.transitions(); }
  /// Standard deviation of a transition; with a learned variance, rows have their own.
  double sigma(std::int64_t transition) const { return schedule_.step(transition).sigma; }
  std::int64_t dim() const noexcept { return network_->config().dim(); }
  bool learned_sigma() const noexcept { return sampling_.variance == MarVariance::kLearned; }

  struct Input {
    const float* condition;                 ///< [condition_width]
    const float* null_condition = nullptr;  ///< the same without the class; null: no guidance
    double guidance = 1.0;  ///< scale s of none + s (given - none); 1 evaluates one network
  };
  std::vector<MarCondition> prepare(std::span<const Input> inputs) const;

  struct Row {
    const MarCondition* condition;
    const float* state;  ///< [dim]
    std::int64_t transition;
  };
  struct Output {
    std::vector<float> means;   ///< [rows, dim]
    std::vector<float> sigmas;  ///< [rows, dim] with a learned variance, else empty
  };
  Output run(std::span<const Row> rows) const;
  /// The means of the next states, guidance and the bounds of x_0 within them: [rows, dim].
  std::vector<float> means(std::span<const Row> rows) const { return run(rows).means; }

 private:
  struct Pass;
  template <class Each>
  void run_rows(Pass& pass, std::int64_t first, std::int64_t last, const Each& each) const;
  void modulate(std::span<const float> sums, std::span<float* const> to) const;
  void finish(const Row& row, const float* given, const float* none, float* mean,
              float* sigma) const;

  std::shared_ptr<const MarNetwork> network_;
  MarSampling sampling_;
  MarSchedule schedule_;
  std::int64_t pieces_width_ = 0;  // values of all modulations of a row
  /// kSeparate: modulations of each transition's time; kJoint: embeddings of the times.
  std::vector<float> times_;
};

}  // namespace forerun
