#include "forerun/train/pace.h"

namespace forerun {

void Pace::add(double seconds) {
  if (steps_++ == 0) {
    first_ = seconds;
    return;
  }
  // An average over about the last hundred steps: long enough to hold checkpoints and evaluations.
  constexpr double kKeep = 0.99;
  sum_ = kKeep * sum_ + seconds;
  weight_ = kKeep * weight_ + 1.0;
}

double Pace::remaining(std::int64_t steps_left) const {
  const double step = weight_ > 0.0 ? sum_ / weight_ : first_;
  return step * static_cast<double>(steps_left);
}

}  // namespace forerun
