#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "forerun/methods/sam/corpus_index.h"
#include "forerun/model.h"

namespace forerun {

/// The answers beside a model's file, loaded when they are first drafted from.
struct AnswersBeside {
  std::mutex mutex;
  std::shared_ptr<const CorpusIndex> index;
};

/// An index of the answers in a folder of forerun distill, one for all that have the same. That of
/// `answers_folder(target)` stays with the target. The order of many answers is kept beside them
/// (kOrderFile), where the folder can be written, so that they are sorted once.
/// @throws UsageError   no such folder, answers of another vocabulary, no answers
/// @throws FormatError  as TokenShards
std::shared_ptr<const CorpusIndex> load_corpus(const std::string& folder, const Model& target);

/// Whether forerun distill has written answers to `answers_folder(target)`.
bool has_answers_beside(const Model& target);

/// A safetensors file with "places" I32 [n], CorpusIndex::order().
inline constexpr const char* kOrderFile = "answers.order";

}  // namespace forerun
