#ifndef FORERUN_MPI
#include <cstdlib>
#include <stdexcept>

#include "forerun/train/internal/mpi_group.h"

namespace forerun::internal {

struct MpiGroup::State {};

std::unique_ptr<MpiGroup> MpiGroup::join() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(name);
    if (size == nullptr || std::atoi(size) < 2) continue;
    throw std::invalid_argument(
        "started by mpirun, but this forerun is built without MPI: install libopenmpi-dev and "
        "build again, or start it without mpirun");
  }
  return nullptr;
}

// There is never such a group here, so these are never called.
MpiGroup::MpiGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
MpiGroup::~MpiGroup() = default;
int MpiGroup::rank() const noexcept { return 0; }
int MpiGroup::size() const noexcept { return 1; }
int MpiGroup::local_size() const noexcept { return 1; }
void MpiGroup::sum_(std::span<float>) {}
void MpiGroup::sum_(std::span<double>) {}
void MpiGroup::broadcast_(std::span<float>) {}
std::vector<std::string> MpiGroup::gather(const std::string& bytes) { return {bytes}; }
void MpiGroup::part_in_order() noexcept {}

}  // namespace forerun::internal
#endif
