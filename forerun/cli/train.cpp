#include "forerun/cli/options.h"
#include "forerun/cli/training.h"

namespace forerun::cli {

void add_train(Command& program) {
  Command& train = program.add_command("train", "Train a drafter, or a small model to try one on");
  add_train_dflash(train);
  add_train_medusa(train);
  add_train_dlm(train);
  add_train_tidar(train);
  add_train_ngram(train);
  add_train_dit(train);
  add_train_free(train);
  add_train_classifier(train);
  add_train_mar(train);
  add_train_cspd(train);
}

}  // namespace forerun::cli
