#include "forerun/train/ranks.h"

#include <exception>
#include <utility>

#include "forerun/train/internal/mpi_group.h"

namespace forerun {

Ranks::Ranks() = default;
Ranks::Ranks(std::unique_ptr<internal::MpiGroup> group) : group_(std::move(group)) {}
Ranks Ranks::join() { return Ranks(internal::MpiGroup::join()); }
Ranks::Ranks(Ranks&&) noexcept = default;
Ranks& Ranks::operator=(Ranks&&) noexcept = default;
Ranks::~Ranks() = default;

int Ranks::rank() const noexcept { return group_ ? group_->rank() : 0; }
int Ranks::size() const noexcept { return group_ ? group_->size() : 1; }
int Ranks::local_size() const noexcept { return group_ ? group_->local_size() : 1; }

void Ranks::sum_(std::span<float> values) {
  if (group_) group_->sum_(values);
}

void Ranks::sum_(std::span<double> values) {
  if (group_) group_->sum_(values);
}

void Ranks::broadcast_(std::span<float> values) {
  if (group_) group_->broadcast_(values);
}

std::vector<std::string> Ranks::gather(const std::string& bytes) {
  return group_ ? group_->gather(bytes) : std::vector<std::string>{bytes};
}

bool Ranks::any(bool here) {
  double count = here ? 1.0 : 0.0;
  sum_(std::span(&count, 1));
  return count > 0.0;
}

void Ranks::together(const std::function<void()>& work) {
  if (!group_) return work();
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<double> failed(static_cast<std::size_t>(size()));
  if (failure) failed[static_cast<std::size_t>(rank())] = 1.0;
  sum_(failed);
  for (int r = 0; r < size(); ++r) {
    if (failed[static_cast<std::size_t>(r)] == 0.0) continue;
    group_->part_in_order();
    if (r == rank()) std::rethrow_exception(failure);
    throw StoppedByOtherRank("stopped, because another rank failed");
  }
}

}  // namespace forerun
