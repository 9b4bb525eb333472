#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace forerun {

/// Training cannot go on; the message says why and what to try.
class TrainError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown on the ranks other than the one that reports the failure: stop, and print nothing.
class StoppedByOtherRank : public TrainError {
 public:
  using TrainError::TrainError;
};

/// The processes that train together; one alone unless the program was started by `mpirun`.
/// Every rank makes the same calls in the same order.
class Ranks {
 public:
  /// This process alone.
  Ranks();
  /// All processes of an `mpirun`, or this one alone where there was none. Once a process.
  /// @throws std::invalid_argument  started by mpirun, but forerun was built without MPI
  static Ranks join();
  Ranks(Ranks&&) noexcept;
  Ranks& operator=(Ranks&&) noexcept;
  ~Ranks();

  int rank() const noexcept;
  int size() const noexcept;
  /// Ranks on this machine, to share its cores.
  int local_size() const noexcept;

  /// Replaces every element by its sum over the ranks; all ranks get the same bits.
  void sum_(std::span<float> values);
  void sum_(std::span<double> values);
  /// Rank 0's bytes, everywhere.
  std::string broadcast(std::string bytes);
  /// Every rank's bytes, by rank.
  std::vector<std::string> gather(const std::string& bytes);
  /// True on all ranks if it is on one.
  bool any(bool here);

  /// Runs `work`, then waits for the others. If it threw on some rank, every rank throws: the
  /// failure itself where it happened (or on rank 0, naming the rank), StoppedByOtherRank
  /// elsewhere.
  void together(const std::function<void()>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun
