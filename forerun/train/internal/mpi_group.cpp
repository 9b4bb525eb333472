#ifdef FORERUN_MPI
#include "forerun/train/internal/mpi_group.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "forerun/train/ranks.h"

namespace forerun::internal {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMostPerCall = std::size_t{1} << 26;  // elements; MPI counts in int

bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(name);
    if (size != nullptr && std::atoi(size) > 1) return true;
  }
  return false;
}

void expect_success(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(code, text.data(), &size);
  throw TrainError(fmt::format("MPI: {} failed: {}; the last checkpoint stands", what,
                               std::string(text.data(), static_cast<std::size_t>(size))));
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

struct MpiGroup::State {
  int rank = 0, size = 1;
  bool ordered = true;            // all ranks will end together
  bool broken = false;            // a rank is gone: MPI cannot be finalised
  std::vector<pid_t> neighbours;  // by rank; 0 for ranks of other machines

  // Waits without MPI's busy loop: ranks may share cores, and a killed rank must be noticed. In an
  // `urgent` wait all ranks are known to be alive.
  void wait(MPI_Request request, const char* what, bool urgent = false) {
    const auto start = Clock::now();
    auto looked = start;
    for (bool gone = false;;) {
      int done = 0;
      expect_success(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      if (done != 0) return;
      if (gone) lost();
      const auto now = Clock::now();
      if (urgent || now - start < milliseconds(1)) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(microseconds(200));
      }
      if (now - looked < milliseconds(50)) continue;
      looked = now;
      gone = missing() >= 0;  // it may have sent everything: check once more
    }
  }

  int missing() const {
    for (std::size_t r = 0; r < neighbours.size(); ++r) {
      if (neighbours[r] > 0 && kill(neighbours[r], 0) != 0 && errno == ESRCH) {
        return static_cast<int>(r);
      }
    }
    return -1;
  }

  [[noreturn]] void lost() {
    broken = true;
    const int gone = missing();
    for (int r = 0; r < rank; ++r) {
      const pid_t pid = neighbours[static_cast<std::size_t>(r)];
      if (pid > 0 && kill(pid, 0) == 0) throw StoppedByOtherRank("stopped, because a rank is gone");
    }
    // Lets the others find the rank that reports the error: they check every 50 ms.
    std::this_thread::sleep_for(milliseconds(150));
    throw TrainError(fmt::format(
        "rank {} (process {}) is gone, so training stops; the last checkpoint stands: start the "
        "same command again to go on",
        gone, gone >= 0 ? neighbours[static_cast<std::size_t>(gone)] : 0));
  }
};

MpiGroup::MpiGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::unique_ptr<MpiGroup> MpiGroup::join() {
  if (!started_by_mpirun()) return nullptr;
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0 &&
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
    throw TrainError("MPI cannot be started; start the program by the mpirun of the same MPI");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto state = std::make_unique<State>();
  MPI_Comm_rank(MPI_COMM_WORLD, &state->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state->size);
  if (state->size == 1) {
    throw std::invalid_argument(
        "started by mpirun, but MPI sees one rank: start it by the mpirun of the MPI that forerun "
        "is built with");
  }
  State& s = *state;
  std::unique_ptr<MpiGroup> group(new MpiGroup(std::move(state)));
  const std::string host = host_name();
  const auto all = group->gather(fmt::format("{} {}", getpid(), host));
  for (const std::string& text : all) {
    const std::size_t space = text.find(' ');
    const bool here = text.substr(space + 1) == host;
    s.neighbours.push_back(here ? static_cast<pid_t>(std::stol(text)) : 0);
  }
  s.ordered = false;
  return group;
}

MpiGroup::~MpiGroup() {
  // MPI_Finalize waits for all ranks. While only this one is unwinding, the others are elsewhere:
  // it exits without MPI_Finalize and mpirun ends them.
  if (state_->broken || (std::uncaught_exceptions() > 0 && !state_->ordered)) return;
  MPI_Finalize();
}

int MpiGroup::rank() const noexcept { return state_->rank; }
int MpiGroup::size() const noexcept { return state_->size; }

int MpiGroup::local_size() const noexcept {
  return static_cast<int>(std::count_if(state_->neighbours.begin(), state_->neighbours.end(),
                                        [](pid_t pid) { return pid > 0; }));
}

void MpiGroup::part_in_order() noexcept { state_->ordered = true; }

void MpiGroup::sum_(std::span<float> values) {
  while (!values.empty()) {
    const std::size_t n = std::min(values.size(), kMostPerCall);
    MPI_Request request = MPI_REQUEST_NULL;
    expect_success(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(n), MPI_FLOAT,
                                  MPI_SUM, MPI_COMM_WORLD, &request),
                   "a sum");
    state_->wait(request, "a sum", /*urgent=*/true);
    values = values.subspan(n);
  }
}

void MpiGroup::sum_(std::span<double> values) {
  MPI_Request request = MPI_REQUEST_NULL;
  expect_success(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                                MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request),
                 "a sum");
  state_->wait(request, "a sum");
}

void MpiGroup::broadcast_(std::span<float> values) {
  while (!values.empty()) {
    const std::size_t n = std::min(values.size(), kMostPerCall);
    MPI_Request request = MPI_REQUEST_NULL;
    expect_success(
        MPI_Ibcast(values.data(), static_cast<int>(n), MPI_FLOAT, 0, MPI_COMM_WORLD, &request),
        "a broadcast");
    state_->wait(request, "a broadcast", /*urgent=*/true);
    values = values.subspan(n);
  }
}

std::vector<std::string> MpiGroup::gather(const std::string& bytes) {
  const auto ranks = static_cast<std::size_t>(state_->size);
  std::vector<int> sizes(ranks), begins(ranks);
  const int mine = static_cast<int>(bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  expect_success(
      MPI_Iallgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD, &request),
      "a gathering");
  state_->wait(request, "a gathering");
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  std::string all(static_cast<std::size_t>(begins.back() + sizes.back()), '\0');
  expect_success(MPI_Iallgatherv(bytes.data(), mine, MPI_BYTE, all.data(), sizes.data(),
                                 begins.data(), MPI_BYTE, MPI_COMM_WORLD, &request),
                 "a gathering");
  state_->wait(request, "a gathering");
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks; ++r) {
    out.push_back(
        all.substr(static_cast<std::size_t>(begins[r]), static_cast<std::size_t>(sizes[r])));
  }
  return out;
}

}  // namespace forerun::internal
#endif
