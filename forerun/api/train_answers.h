#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/api/train_on_ranks.h"
#include "forerun/formats/token_shards.h"
#include "forerun/model.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/train/answers/answer_training.h"

namespace forerun {

/// @throws UsageError  `what`, unless it holds
void need(bool holds, std::string_view what);
/// Whether a number lies in [0, 1]; false for NaN.
bool is_share(double x) noexcept;

/// @throws UsageError  an option out of range
void check_answer_options(const AnswerLossOptions& options);

/// Answers in folders of `distill`.
struct Answers {
  std::vector<TokenShards> data;  ///< of each folder
  std::string target_hash;        ///< Model::hash of the target
};

/// The documents of folders, whoever wrote them.
/// @throws UsageError           no folder
/// @throws std::invalid_argument  a token outside the vocabulary; FormatError  a damaged folder
std::vector<TokenShards> load_documents(const std::vector<std::string>& folders,
                                        std::int64_t vocab);

/// @param note  told of a folder that does not say which model wrote it
/// @throws UsageError   no folder, or answers of another model than `target`: they would train a
/// drafter for that model; FormatError  a damaged folder
Answers load_answers(const Model& target, const std::vector<std::string>& folders,
                     const Note& note);

/// Whether the target's states are computed from its weights as numbers: on other devices than the
/// CPU, where the packed model does not run.
bool reads_numbers(const TrainOptions& training);
/// A target's numbers where and as training computes with them.
std::shared_ptr<const DecoderLm> frozen_numbers(const DecoderLm& numbers,
                                                const TrainOptions& training);
/// What computes the target's states: the model itself, or its numbers on the device of training.
/// @param numbers  all parts, where reads_numbers
std::shared_ptr<const DecoderLm> target_of_states(const Model& target, const DecoderLm& numbers,
                                                  const TrainOptions& training);

}  // namespace forerun
