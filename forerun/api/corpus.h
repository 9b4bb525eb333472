#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "forerun/methods/sam/corpus_index.h"
#include "forerun/model.h"

namespace forerun {

/// The answers beside a model's file. Its index is kept until they change, so that every drafter
/// `auto` of the model has it at once.
struct AnswersBeside {
  explicit AnswersBeside(const std::string& model_path);

  const std::string folder;
  std::mutex mutex;
  std::string state;                         ///< of the folder when it was read, empty: never
  std::shared_ptr<const CorpusIndex> index;  ///< null: there are none, or none that fit
  std::string left_out;                      ///< why answers do not fit
};

/// An index of the answers in a folder of forerun distill, one for all that have the same. The
/// order of many answers is kept beside them (kOrderFile), where the folder can be written, so that
/// they are sorted once.
/// @throws UsageError   no such folder, answers of another vocabulary, no answers
/// @throws FormatError  as TokenShards
std::shared_ptr<const CorpusIndex> load_corpus(const std::string& folder, const Model& target);

/// Whether there are answers in `answers_folder(target)` that it can draft from; if they are of
/// another vocabulary or damaged, `left_out` says so.
bool has_answers_beside(const Model& target, std::string& left_out);

/// A safetensors file with "places" I32 [n], CorpusIndex::order().
inline constexpr const char* kOrderFile = "answers.order";

}  // namespace forerun
