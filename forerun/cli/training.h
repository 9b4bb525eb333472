#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "forerun/cli/flags.h"
#include "forerun/cli/options.h"
#include "forerun/train.h"

namespace forerun::cli {

/// Flags that all training has. `what`: what an example is called, in the plural.
struct TrainingFlags {
  TrainOptions options;
  int threads = 0;
  bool f32 = false;
};
void bind_training(Command& app, TrainingFlags& flags, const std::string& what);

/// The same for training on images, with the folder they are in and what suits small ones.
struct ImageTraining {
  double epochs = 0.0, learning_rate = 1e-3;
};
void bind_image_training(Command& app, TrainingFlags& flags, std::string& data,
                         const ImageTraining& defaults);

/// The same for training on a target's answers, with the target and what all such losses have.
struct AnswerFlags {
  ModelFlags target{.rows = PassRows::kMany};
  std::vector<std::string> data;
  TrainingFlags training;
};
void bind_answers(Command& app, AnswerFlags& flags, AnswerLossOptions& loss);
/// --weight-bits of networks that draft.
void bind_weight_bits(Command& app, std::int64_t& bits);

/// With --init the design is that of the network named there.
/// @param flags  what would choose another
/// @throws UsageError  --init and one of them were given
void expect_no_design_beside_init(const Command& app, std::initializer_list<const char*> flags);

/// Trains with a progress line, the curves as a page, and what the machine could have done.
/// @param unit   of the examples' pace: "tok", "img"
/// @param train  the call, with options and listener completed
/// @return       the exit code
int run_training(
    const Command& command, const TrainingFlags& flags, const std::string& unit,
    const std::function<TrainReport(const TrainOptions&, const TrainListener&)>& train);

/// Of a drafter for a language model, on its answers.
/// @param train  the call, with target, data, options and listener completed
int run_training_on_answers(
    const Command& command, const AnswerFlags& flags,
    const std::function<TrainReport(const std::function<Model()>& target,
                                    const std::vector<std::string>& data, const TrainOptions&,
                                    const TrainListener&)>& train);

/// The subcommands of `forerun train`.
void add_train_dflash(Command& train);
void add_train_medusa(Command& train);
void add_train_tidar(Command& train);
void add_train_dit(Command& train);
void add_train_dlm(Command& train);
void add_train_free(Command& train);
void add_train_classifier(Command& train);
void add_train_ngram(Command& train);
void add_train_mar(Command& train);
void add_train_cspd(Command& train);

}  // namespace forerun::cli
