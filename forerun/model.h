#pragma once

/// Language models and what drafts for them.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/common.h"
#include "forerun/core/token.h"
#include "forerun/core/token_grammar.h"
#include "forerun/core/tools.h"

#pragma GCC visibility push(default)
namespace forerun {

/// One turn of a conversation.
struct Message {
  std::string role;  ///< "system", "user", "assistant", or what else the model's template knows
  std::string content;
  std::string fields = {};  ///< a JSON object of more that the template reads: "tool_calls"
};

/// What a conversation's template gets beside the messages.
struct ChatInput {
  std::string tools = {};      ///< a JSON list of tools as OpenAI's API has them; empty: none
  std::string variables = {};  ///< a JSON object of further variables; empty: none
  bool add_generation_prompt = true;  ///< end with the start of an answer
  /// End with the content of the last message, from which the answer then goes on.
  bool continue_last = false;
};

/// What a tokenizer has beside pieces of text.
struct TokenizerInfo {
  std::size_t pieces = 0;  ///< its vocabulary; that of the model may be padded
  std::optional<Token> bos, eos, pad, unknown;
  bool adds_bos = false, adds_eos = false;   ///< to every text
  std::vector<Token> end;                    ///< any of them ends an answer; rising
  std::optional<std::string> chat_template;  ///< as the model's files have it
};

/// A language model with its tokenizer. A handle: copies share the weights, which never change.
class Model {
 public:
  /// @param path  a GGUF file, or a Hugging Face folder (config.json, tokenizer.json,
  /// *.safetensors); where nothing lies there, "ORG/NAME" or "ORG/NAME/FILE" of Hugging Face's
  /// cache on this machine, whose folder "models--ORG--NAME" is one as well
  /// @param precision  `auto` depends on the file, the processor and the free memory: int4 for a
  /// file with half of its weights in 4-bit matrices of its layers; else int8; without AVX2
  /// float32. Texts of a seed are those of a precision: name one to get the same on every
  /// processor, and int8 to resume training that the command began
  /// @throws UsageError   no such path, or a name that stands for several models
  /// @throws FormatError  broken file, unsupported architecture or quantisation
  /// @throws UsageError   a precision that this processor does not support
  static Model load(const std::string& path, PrecisionRequest precision = kAutoPrecision);

  /// The text itself, with a beginning-of-sequence token if the model has one. Text that spells a
  /// special token ("<|im_end|>") becomes that token.
  std::vector<Token> encode(std::string_view text) const;
  /// A conversation as the model's own chat template writes it, ready for the next answer. Nothing
  /// in it is a special token, whatever it spells. A template that asks for the date gets today's.
  /// Without a template that can be read, the format of a known family is taken (chat_note says
  /// so), which takes special tokens in messages as they come.
  /// @throws UsageError  no chat format, or what the template says against the conversation
  std::vector<Token> encode_chat(std::span<const Message> messages,
                                 const ChatInput& input = {}) const;
  /// One line if it is not the model's own template that writes conversations; else empty.
  std::string chat_note() const;
  /// The template tells the model of ChatInput::tools, and has their calls as tool_grammar does.
  bool chat_writes_tools() const;
  /// How the template writes calls, for ToolCalls::form; kJson if it is not known to write any.
  CallForm call_form() const;
  /// Answers are messages of OpenAI's harmony format, as the template and the vocabulary tell.
  bool answers_in_channels() const;
  std::string decode(std::span<const Token> tokens) const;
  /// The bytes that a token stands for, perhaps a part of a character; a special token's name.
  std::string_view piece(Token token) const;
  TokenizerInfo tokenizer_info() const;

  /// The texts that are JSON of a schema, for GenerateOptions::changes. Properties come in the
  /// schema's order, none are added to those it names, and the answer has nothing beside the JSON.
  /// @param schema  JSON Schema; docs/serving.md says what of it is kept
  /// @param reasoning  which may come first, any text
  /// @throws UsageError  a schema that would not be kept in full: the message names the part
  std::shared_ptr<const TokenGrammar> json_grammar(
      std::string_view schema, ReasoningStart reasoning = ReasoningStart::kAfter) const;
  /// One of these texts, and nothing else but reasoning before it.
  /// @throws UsageError  none is given, or an empty one
  std::shared_ptr<const TokenGrammar> choice_grammar(
      std::span<const std::string> texts, ReasoningStart reasoning = ReasoningStart::kAfter) const;
  /// The texts that a regular expression matches as a whole.
  /// @throws UsageError  wrong syntax, or what would not be kept (lookaround, ...): it is named
  std::shared_ptr<const TokenGrammar> regex_grammar(
      std::string_view expression, ReasoningStart reasoning = ReasoningStart::kAfter) const;
  /// Texts whose calls of tools have a form that models were trained on: ToolCalls::form says
  /// which, and call_form() which is the model's; with ReasoningStart::kChannels they are messages
  /// of OpenAI's harmony format, for models with answers_in_channels().
  /// @throws UsageError  no tool, parameters that would not be kept, or no channels
  std::shared_ptr<const TokenGrammar> tool_grammar(std::span<const Tool> tools,
                                                   const ToolCalls& calls) const;

  const std::string& path() const;
  /// A hash of the weights in its file, all of which is read: tells models apart whatever their
  /// names.
  /// @throws FormatError  the file is gone
  std::string hash() const;
  Precision precision() const;
  const ChosenPrecision& chosen_precision() const;  ///< the same, with the reason
  std::size_t vocab() const;
  std::size_t context() const;

  struct Impl;

 private:
  friend struct Access;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// A drafter of tokens. A handle; one Drafter may serve many calls, and keeps what it learns about
/// costs and acceptance.
class Drafter {
 public:
  Drafter();  ///< none: plain decoding
  /// @param name  "none", "auto", "lookup", "recycling", "draft-model:PATH", "dflash:PATH" or
  /// "medusa:PATH"; sources without a model can be added to each other and to these:
  /// "dflash:PATH+sam:FOLDER+lookup+recycling". "auto" is "lookup+recycling",
  /// "sam:FOLDER" of answers_folder(target) where that holds answers, and the trained drafter of
  /// drafter_folder(target) where there is one and none is named
  /// @param precision  of a drafting model; kAutoPrecision: the fastest on this processor
  /// @throws UsageError  unknown name, a model whose vocabulary differs from the target's (the
  /// message names the first difference), or a corpus of another vocabulary or without answers
  static Drafter load(std::string_view name, const Model& target,
                      PrecisionRequest precision = kAutoPrecision);

  const std::string& name() const { return name_; }
  bool none() const { return name_ == "none"; }
  /// The parts of its name, with those that "auto" stands for; empty: none.
  const std::vector<std::string>& parts() const { return parts_; }
  /// What lies beside the model and "auto" leaves out, and why; empty: nothing.
  const std::string& left_out() const { return left_out_; }
  /// The drafting model, if there is one.
  std::optional<Model> model() const;
  /// It has laws for its drafts; they are not only deterministic.
  bool has_laws() const;
  /// Outputs follow the target's law if the rule is exact. False: that of another model, made of
  /// the target's logits and the drafter's (tidar with beta below 1).
  bool keeps_law() const;

  /// The same drafter without its statistics.
  Drafter fresh() const;

  struct Learned;
  struct Method;

 private:
  friend struct Access;
  std::string name_ = "none";
  std::vector<std::string> parts_;
  std::string left_out_;
  std::shared_ptr<const Method> method_;  // null: none
  std::shared_ptr<Learned> learned_;
};

/// Where the drafter "auto" looks for a trained drafter, a folder of forerun train dflash, medusa,
/// dlm or tidar: beside the model's file or folder, "DIR/model.drafter" of "DIR/model.gguf". An
/// absolute path. Its network stays in memory as long as the model does. It is left out where the
/// model's weights stay in their file (Precision::kFile).
std::string drafter_folder(const Model& model);

/// Where the drafter "auto" looks for answers of the model that forerun distill wrote: beside its
/// file or folder, "DIR/model.answers" of "DIR/model.gguf". An absolute path. The index of those
/// answers, 17 bytes a token, stays in memory as long as the model does, and a corpus of many
/// tokens gets a file of its order beside it ("answers.order").
std::string answers_folder(const Model& model);

}  // namespace forerun
#pragma GCC visibility pop
