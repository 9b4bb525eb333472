#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "forerun/formats/chat_template.h"
#include "forerun/formats/tokenizer/tokenizer.h"
#include "forerun/model.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// What a Model handle holds.
struct Model::Impl {
  std::string path;
  DecoderLm lm;
  ChosenPrecision precision;
  Tokenizer tokenizer;
  std::optional<ChatFamily> chat;
  bool has_chat_template = false;
  std::unordered_set<Token> end_tokens;  ///< any of them ends an answer
};

}  // namespace forerun
