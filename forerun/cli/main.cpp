#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/train.h"

namespace {

using namespace forerun::cli;

constexpr int kFailure = 1;
constexpr int kMisuse = 2;
constexpr const char* kOutOfMemory =
    "forerun: out of memory; try --precision bf16, a shorter prompt or a smaller model";

// Libraries below append a backtrace to their message; a user needs its first line.
std::string first_line(const char* message) {
  const std::string text(message);
  return text.substr(0, text.find('\n'));
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
  CLI::App app(
      "forerun makes generative models faster without changing what they generate:\na drafter runs "
      "ahead, the target checks the draft in one pass, an exact coupling decides what to keep.",
      "forerun");
  app.require_subcommand(1);
  app.set_version_flag("--version", "forerun " FORERUN_VERSION);
  app.footer("forerun COMMAND --help explains a command. Exit status: 0 done, 1 failed, 2 misuse.");

  std::vector<std::pair<CLI::App*, Action>> commands;
  // The same verbs, with what is asked of images where the model makes images.
  const bool images = asks_for_images(argc, argv);
  for (auto* add : {images ? &add_generate_images : &add_generate, &add_chat,
                    images ? &add_bench_images : &add_bench, &add_cost,
                    images ? &add_certify_images : &add_certify, &add_compare, &add_distill,
                    &add_train, &add_profile, &add_evaluate, &add_info, &add_logits, &add_demo}) {
    CLI::App* command = nullptr;
    Action action = (*add)(app, command);
    commands.emplace_back(command, std::move(action));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kMisuse;
  }
  catch_interrupts();
  for (const auto& [command, action] : commands) {
    if (command->parsed()) return guarded(action);
  }
  return kMisuse;
}
