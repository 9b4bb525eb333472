#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace forerun::internal {

/// The processes of an `mpirun`; mpi_group.cpp if forerun is built with MPI, else mpi_absent.cpp.
class MpiGroup {
 public:
  /// Nothing if mpirun did not start this process, or it is the only one.
  /// @throws std::invalid_argument  mpirun started it, and forerun is built without MPI
  static std::unique_ptr<MpiGroup> join();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup();

  int rank() const noexcept;
  int size() const noexcept;
  int local_size() const noexcept;
  // Each waits for the other ranks and throws TrainError if one on this machine is gone.
  void sum_(std::span<float> values);
  void sum_(std::span<double> values);
  void broadcast_(std::span<float> values);
  std::vector<std::string> gather(const std::string& bytes);
  /// All ranks are about to end normally, so the final wait does not wait for a missing rank.
  void part_in_order() noexcept;

 private:
  struct State;
  explicit MpiGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace forerun::internal
