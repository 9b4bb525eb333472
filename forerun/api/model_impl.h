#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "forerun/api/corpus.h"
#include "forerun/api/drafter_beside.h"
#include "forerun/formats/chat_format.h"
#include "forerun/formats/grammar/grammar_compiler.h"
#include "forerun/formats/tokenizer/tokenizer.h"
#include "forerun/model.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// Made when the first grammar is wanted: it sorts the vocabulary.
struct Grammars {
  std::once_flag made;
  std::unique_ptr<const GrammarCompiler> compiler;
};

/// What a Model handle holds.
struct Model::Impl {
  std::string path;
  DecoderLm lm;
  ChosenPrecision precision;
  Tokenizer tokenizer;
  ChatFormat chat;
  std::unordered_set<Token> end_tokens;  ///< any of them ends an answer
  std::shared_ptr<Grammars> grammars = std::make_shared<Grammars>();
  std::shared_ptr<AnswersBeside> answers = std::make_shared<AnswersBeside>(path);
  std::shared_ptr<DrafterBeside> drafter = std::make_shared<DrafterBeside>(path);
};

}  // namespace forerun
