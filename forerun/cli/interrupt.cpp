#include "forerun/cli/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "forerun/base/atomic_file.h"

namespace forerun::cli {
namespace {

// A signal handler can reach nothing but a global.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t requested = 0;
volatile std::sig_atomic_t ends_at_request = kEndsAtSecond;
volatile std::sig_atomic_t ending = 0;  // asked for by more than Ctrl-C
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void handle(int signal) {
  if (signal != SIGINT) ending = 1;
  requested = requested + 1;
  if (requested < ends_at_request) return;
  remove_unfinished_files();
  _exit(130);
}

// Of a terminal that was closed several come, from the kernel and from the shell.
void handle_hangup(int signal) {
  if (requested == 0) handle(signal);
}

}  // namespace

void catch_interrupts(int ends_at) {
  ends_at_request = ends_at;
  struct sigaction action = {};
  action.sa_handler = handle;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);  // the one mpirun hands on to all ranks and does not act on
  // A reader that went away is an error to report, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // nor is a limit on the size of files
  // A terminal that went away asks as Ctrl-C does, unless nohup has it ignored.
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler == SIG_IGN) return;
  action.sa_handler = handle_hangup;
  sigaction(SIGHUP, &action, nullptr);
}

bool interrupted() noexcept { return requested != 0; }

void clear_interrupt() noexcept {
  if (ending == 0) requested = 0;
}

EndsAtFirst::EndsAtFirst() noexcept : before_(ends_at_request) {
  if (before_ == kEndsAtSecond) ends_at_request = 1;
}
EndsAtFirst::~EndsAtFirst() { ends_at_request = before_; }

}  // namespace forerun::cli
