#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/train.h"

namespace {

using namespace forerun::cli;
using forerun::printable;

constexpr int kFailure = 1;
constexpr int kMisuse = 2;
constexpr const char* kOutOfMemory =
    "forerun: out of memory; try a smaller --precision, a shorter prompt or a smaller model";

// Libraries below append a backtrace to their message; a user needs its first line. It may hold
// names and strings of files.
std::string first_line(const char* message) {
  constexpr std::size_t kMost = 1000;
  const std::string text(message);
  return printable(text.substr(0, text.find('\n')), kMost);
}

int guarded(const Action& action) {
  try {
    return action();
  } catch (const forerun::StoppedByOtherRank&) {
    return kFailure;  // that one says why
  } catch (const forerun::UsageError& e) {
    note(fmt::format("forerun: {}", first_line(e.what())));
    return kMisuse;
  } catch (const std::bad_alloc&) {
    note(kOutOfMemory);
    return kFailure;
  } catch (const std::exception& e) {
    const std::string line = first_line(e.what());
    const bool memory = line.find("can't allocate memory") != std::string::npos;
    note(memory ? kOutOfMemory : fmt::format("forerun: {}", line));
    return kFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  Command program(
      "forerun makes generative models faster without changing what they generate:\na drafter runs "
      "ahead, the target checks the draft in one pass, an exact coupling decides what to keep.",
      FORERUN_VERSION);
  program.footer(
      "forerun COMMAND --help explains a command. Exit status: 0 done, 1 failed, 2 misuse, "
      "130 interrupted.");
  for (auto* add :
       {&add_generate, &add_chat, &add_bench, &add_cost, &add_certify, &add_compare, &add_distill,
        &add_train, &add_profile, &add_evaluate, &add_info, &add_logits, &add_demo, &add_serve}) {
    (*add)(program);
  }
  const Action action = program.parse(argc, argv);
  catch_interrupts();
  return guarded(action);
}
