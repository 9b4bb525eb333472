#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun {

/// Chat formats, each named after the models whose template it reproduces: for models without a
/// template that can be read (chat_format.h).
enum class ChatFamily : std::uint8_t {
  kChatMl,   ///< <|im_start|>role ... <|im_end|>, nothing added
  kSmolLm2,  ///< ChatML with SmolLM's default system message
  kQwen2,    ///< ChatML, "You are a helpful assistant."
  kQwen25,   ///< ChatML, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
  kQwen3,    ///< ChatML without default; drops the thoughts of earlier answers
  kLlama3,   ///< <|start_header_id|>role<|end_header_id|>
  kLlama31,  ///< Llama 3.1 to 3.3: the system message always stands, with two dates
  kGemma,  ///< Gemma 2 and 3: roles user and model; the system message goes in the first user turn
  kZephyr  ///< Zephyr, TinyLlama: <|role|>
};

struct ChatMessage {
  std::string role, content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  ///< end with the start of an answer
  bool thinking = true;               ///< kQwen3; false begins the answer with an empty thought
  std::string date =
      "26 Jul 2024";     ///< kLlama31's "Today Date"; this is its template's own default
  std::string bos, eos;  ///< text written where the template says bos_token and eos_token
};

/// The conversation as the model's own template writes it. Contents are not escaped: where the
/// result is encoded with Special::kParse, "<|im_end|>" in a message ends it, as in the reference.
/// Errors: no messages, a role other than system, user and assistant, an order that the template
/// refuses.
Result<std::string> render_chat(ChatFamily family, std::span<const ChatMessage> messages,
                                const ChatOptions& options = {});

/// The family of a model's Jinja template, told by what the families' templates have and others
/// lack; none where the template may add or change something that its family does not.
std::optional<ChatFamily> detect_chat_family(std::string_view jinja_template);

std::string_view name_of(ChatFamily family) noexcept;

/// The Jinja templates of a model's files.
struct ChatTemplates {
  std::optional<std::string> standard;
  std::optional<std::string> with_tools;  ///< for conversations with tools; none: the same
};

/// "chat_template" of tokenizer_config.json or chat_template.json: a string, or a list of named
/// ones of which "default" and "tool_use" are read. Error: not JSON.
Result<ChatTemplates> parse_chat_templates(std::string_view tokenizer_config_json);

}  // namespace forerun
