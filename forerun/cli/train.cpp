#include <functional>
#include <memory>
#include <vector>

#include "forerun/cli/options.h"
#include "forerun/cli/training.h"

namespace forerun::cli {

Action add_train(CLI::App& parent, CLI::App*& command) {
  command = parent.add_subcommand("train", "Train a drafter, or a small model to try one on");
  command->require_subcommand(1);
  struct Choice {
    CLI::App* app = nullptr;
    std::function<int()> run;
  };
  auto choices = std::make_shared<std::vector<Choice>>();
  for (const auto& add : {add_train_dflash, add_train_dit, add_train_free, add_train_classifier}) {
    Choice choice;
    choice.run = add(*command, choice.app);
    choices->push_back(choice);
  }
  return [choices] {
    for (const Choice& choice : *choices) {
      if (choice.app->parsed()) return choice.run();
    }
    return 2;
  };
}

}  // namespace forerun::cli
