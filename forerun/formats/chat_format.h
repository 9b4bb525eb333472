#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/core/tools.h"
#include "forerun/formats/chat_template.h"
#include "forerun/formats/jinja/jinja.h"
#include "forerun/formats/tokenizer/tokenizer.h"

namespace forerun {

/// What a model is asked with.
struct Conversation {
  const nlohmann::ordered_json& messages;   ///< objects with "role", "content" and more
  const nlohmann::ordered_json& tools;      ///< a list as OpenAI's API has it, or null
  const nlohmann::ordered_json& variables;  ///< an object: more for the template
  bool add_generation_prompt = true;        ///< end with the start of an answer
  bool continue_last = false;       ///< end with the content of the last message, which goes on
  std::optional<std::int64_t> now;  ///< as JinjaOptions
};

/// How a model's conversations become tokens: by its own template; by the format of a family
/// (chat_template.h) if it has none, or none that can be read, and the family is plain to see; or
/// not at all.
class ChatFormat {
 public:
  ChatFormat() = default;
  /// @param tokenizer  of the model: tells the family where there is no template
  ChatFormat(ChatTemplates templates, const Tokenizer& tokenizer);

  /// The messages can be written.
  bool works() const { return standard_ || family_; }
  /// One line if it is not the model's own template that writes them; else empty.
  const std::string& note() const { return note_; }
  /// The template tells the model of tools, whose calls are then of call_form(), or those of
  /// HarmonyText.
  bool writes_tools() const { return writes_tools_; }
  /// How the template writes calls; CallForm::kJson if it is not known to write any.
  CallForm call_form() const { return call_form_; }
  /// The template's answers are HarmonyText, whose tags are tokens of the vocabulary.
  bool answers_in_channels() const { return harmony_ && tags_; }
  const ChatTemplates& templates() const { return templates_; }

  /// As transformers' apply_chat_template, save that nothing in the conversation is a special
  /// token, whatever it spells. (A family's format takes special tokens as they come.)
  /// @param tokenizer  that of the constructor
  /// Errors: there is no format, the template's own, or a last message to continue that the
  /// template leaves out.
  Result<std::vector<Token>> encode(const Tokenizer& tokenizer,
                                    const Conversation& conversation) const;

 private:
  void find_calls();
  Result<MarkedText> render(const Tokenizer& tokenizer, const Conversation& c) const;

  ChatTemplates templates_;
  std::optional<JinjaTemplate> standard_, with_tools_;
  std::optional<ChatFamily> family_;
  std::string note_;
  CallForm call_form_ = CallForm::kJson;
  bool writes_tools_ = false;
  bool harmony_ = false;  // the template's answers are HarmonyText
  bool tags_ = false;     // and the vocabulary has its tags
};

}  // namespace forerun
