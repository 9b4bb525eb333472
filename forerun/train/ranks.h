#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/train/train_error.h"

namespace forerun {

namespace internal {
class MpiGroup;
}

/// The processes that train together; one alone unless the program was started by `mpirun`. Every
/// rank makes the same calls in the same order. All of them throw TrainError if a rank on this
/// machine is gone (mpirun ends this process if one elsewhere is).
class Ranks {
 public:
  /// This process alone.
  Ranks();
  /// All processes of an `mpirun`, or this one alone without it. Call it once in a process.
  /// @throws std::invalid_argument  started by mpirun, but forerun is built without MPI
  static Ranks join();
  Ranks(Ranks&&) noexcept;
  Ranks& operator=(Ranks&&) noexcept;
  ~Ranks();

  int rank() const noexcept;
  int size() const noexcept;
  /// Ranks on this machine, which share its cores.
  int local_size() const noexcept;
  bool first() const noexcept { return rank() == 0; }

  /// Replaces every element by its sum over the ranks.
  void sum_(std::span<float> values);
  void sum_(std::span<double> values);
  /// Replaces every element by rank 0's.
  void broadcast_(std::span<float> values);
  /// Every rank's bytes, by rank.
  std::vector<std::string> gather(const std::string& bytes);
  /// True on all ranks if it is on one.
  bool any(bool here);

  /// Runs `work` and waits until all ranks have. If it throws on some rank, every rank throws: the
  /// lowest of those its own exception, all others StoppedByOtherRank. `work` must not call the
  /// ranks.
  void together(const std::function<void()>& work);

 private:
  explicit Ranks(std::unique_ptr<internal::MpiGroup> group);
  std::unique_ptr<internal::MpiGroup> group_;  // nothing: alone
};

}  // namespace forerun
