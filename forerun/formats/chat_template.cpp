#include "forerun/formats/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "forerun/base/json_text.h"
#include "forerun/base/python_space.h"

namespace forerun {
namespace {

constexpr std::string_view kSmolLmSystem =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
constexpr std::string_view kQwen2System = "You are a helpful assistant.";
constexpr std::string_view kQwen25System =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

std::string_view trimmed(std::string_view text) { return python_lstripped(python_rstripped(text)); }

std::string_view without_first(std::string_view text, char c) {
  return text.substr(std::min(text.find_first_not_of(c), text.size()));
}

std::string_view without_last(std::string_view text, char c) {
  return text.substr(0, text.find_last_not_of(c) + 1);  // npos + 1 is 0
}

using Messages = std::span<const ChatMessage>;

bool has_system(Messages messages) { return messages.front().role == "system"; }

std::string chat_ml_turn(std::string_view role, std::string_view content) {
  return fmt::format("<|im_start|>{}\n{}<|im_end|>\n", role, content);
}

// @param system  written where the conversation has none of its own; empty: nothing
std::string chat_ml(Messages messages, std::string_view system, const ChatOptions& options) {
  std::string out;
  if (!system.empty() && !has_system(messages)) out += chat_ml_turn("system", system);
  for (const ChatMessage& m : messages) out += chat_ml_turn(m.role, m.content);
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
  return out;
}

struct Answer {
  std::string thought, content;
};

Answer split_thought(std::string_view text) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  const std::size_t first = text.find(kClose), last = text.rfind(kClose);
  if (first == text.npos) return {"", std::string(text)};
  std::string_view thought = without_last(text.substr(0, first), '\n');
  if (const std::size_t open = thought.rfind(kOpen); open != thought.npos) {
    thought.remove_prefix(open + kOpen.size());
  }
  return {std::string(without_first(thought, '\n')),
          std::string(without_first(text.substr(last + kClose.size()), '\n'))};
}

// The last user message that is no tool's answer; thoughts before it are dropped.
std::size_t last_query(Messages messages) {
  for (std::size_t i = messages.size(); i > 0; --i) {
    const ChatMessage& m = messages[i - 1];
    const bool tool =
        m.content.starts_with("<tool_response>") && m.content.ends_with("</tool_response>");
    if (m.role == "user" && !tool) return i - 1;
  }
  return messages.size() - 1;
}

std::string qwen3(Messages messages, const ChatOptions& options) {
  const std::size_t query = last_query(messages);
  std::string out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") {
      out += chat_ml_turn(messages[i].role, messages[i].content);
      continue;
    }
    const Answer answer = split_thought(messages[i].content);
    if (i > query && (i + 1 == messages.size() || !answer.thought.empty())) {
      out += chat_ml_turn("assistant", fmt::format("<think>\n{}\n</think>\n\n{}",
                                                   without_last(answer.thought, '\n'),
                                                   without_first(answer.content, '\n')));
    } else {
      out += chat_ml_turn("assistant", answer.content);
    }
  }
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
  if (options.add_generation_prompt && !options.thinking) out += "<think>\n\n</think>\n\n";
  return out;
}

std::string llama3_turn(std::string_view role, std::string_view content) {
  return fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>", role, content);
}

std::string llama3(Messages messages, bool dates, const ChatOptions& options) {
  std::string out = options.bos;
  if (dates) {
    const bool own = has_system(messages);
    out += llama3_turn("system",
                       fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n{}",
                                   options.date, own ? trimmed(messages.front().content) : ""));
    if (own) messages = messages.subspan(1);
  }
  for (const ChatMessage& m : messages) out += llama3_turn(m.role, trimmed(m.content));
  if (options.add_generation_prompt) out += "<|start_header_id|>assistant<|end_header_id|>\n\n";
  return out;
}

Result<std::string> gemma(Messages messages, const ChatOptions& options) {
  std::string out = options.bos, prefix;
  if (has_system(messages)) {
    prefix = messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if ((role == "user") != (i % 2 == 0)) {
      return Error{fmt::format(
          "chat: message {} is by '{}'; Gemma takes user and assistant in turn, the user first", i,
          role)};
    }
    out +=
        fmt::format("<start_of_turn>{}\n{}{}<end_of_turn>\n", role == "assistant" ? "model" : role,
                    i == 0 ? prefix : "", trimmed(messages[i].content));
  }
  if (options.add_generation_prompt) out += "<start_of_turn>model\n";
  return out;
}

std::string zephyr(Messages messages, const ChatOptions& options) {
  std::string out;
  for (const ChatMessage& m : messages)
    out += fmt::format("<|{}|>\n{}{}\n", m.role, m.content, options.eos);
  if (options.add_generation_prompt) out += "<|assistant|>\n";
  return out;
}

// A template with "\n" written out, since files escape it once or twice, and without spaces between
// words of code, since only those differ from copy to copy.
std::string comparable(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source.substr(i, 2) == "\\n") {
      out += '\n';
      ++i;
    } else {
      out += source[i];
    }
  }
  return out;
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  std::replace(text.begin(), text.end(), '"', '\'');
  return text;
}

class Template {
 public:
  explicit Template(std::string_view source)
      : text_(comparable(source)), dense_(without_spaces(text_)) {}
  bool has(std::string_view part) const { return text_.find(part) != text_.npos; }
  /// As has, but spaces and the kind of quotes do not matter; `part` has single quotes and no
  /// spaces.
  bool has_code(std::string_view part) const { return dense_.find(part) != dense_.npos; }
  template <std::size_t N>
  bool has_any(const std::array<std::string_view, N>& parts) const {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view p) { return has(p); });
  }

 private:
  std::string text_, dense_;
};

std::optional<ChatFamily> detect_chat_ml(const Template& t) {
  constexpr std::array<std::string_view, 6> kChanges = {
      "bos_token", "trim", "vision_start", "strftime", "raise_exception", "replace("};
  if (t.has_any(kChanges)) return std::nullopt;
  const bool turn =
      t.has_code("'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>") ||
      t.has_code("'<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>");
  if (!turn || !t.has("<|im_start|>assistant\n")) return std::nullopt;
  const auto default_system = [&](std::string_view text) {
    return t.has(fmt::format("<|im_start|>system\n{}<|im_end|>\n", text));
  };
  const bool thinks = t.has("<think>");
  if (thinks) {
    const bool qwen3 = t.has_code("enable_thinkingisdefinedandenable_thinkingisfalse") &&
                       t.has("last_query_index") && t.has("'<think>\n\n</think>\n\n'") &&
                       t.has("reasoning_content") && !t.has("system\nYou are");
    return qwen3 ? std::optional(ChatFamily::kQwen3) : std::nullopt;
  }
  if (default_system(kSmolLmSystem)) return ChatFamily::kSmolLm2;
  if (default_system(kQwen25System)) return ChatFamily::kQwen25;
  if (default_system(kQwen2System)) return ChatFamily::kQwen2;
  // A template that treats the system message in any way of its own is not plain ChatML.
  constexpr std::array<std::string_view, 4> kNotPlain = {"system", "You are", "tool", "namespace"};
  return t.has_any(kNotPlain) ? std::nullopt : std::optional(ChatFamily::kChatMl);
}

std::optional<ChatFamily> detect_llama3(const Template& t) {
  if (!t.has_code("message['content']|trim+'<|eot_id|>'") || !t.has("<|end_header_id|>\n\n"))
    return std::nullopt;
  if (t.has("Cutting Knowledge Date: December 2023\n") &&
      t.has_code("'TodayDate:'+date_string+'\n\n'")) {
    return ChatFamily::kLlama31;
  }
  const bool plain = t.has_code("content=bos_token+content") && !t.has("system");
  return plain ? std::optional(ChatFamily::kLlama3) : std::nullopt;
}

std::optional<ChatFamily> detect_gemma(const Template& t) {
  const bool turn = t.has_code("'<start_of_turn>'+role+'\n'") &&
                    t.has_code("message['content']|trim") && t.has("<end_of_turn>\n") &&
                    t.has("<start_of_turn>model\n");
  const bool folds = t.has_code("first_user_prefix=messages[0]['content']+'\n\n'");
  const bool refuses = t.has("System role not supported");
  return turn && (folds || refuses) ? std::optional(ChatFamily::kGemma) : std::nullopt;
}

}  // namespace

Result<std::string> render_chat(ChatFamily family, std::span<const ChatMessage> messages,
                                const ChatOptions& options) {
  if (messages.empty()) return Error{"chat: no messages; give at least one"};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return Error{fmt::format("chat: message {} has role '{}'; expected system, user or assistant",
                               i, role)};
    }
  }
  switch (family) {
    case ChatFamily::kChatMl:
      return chat_ml(messages, "", options);
    case ChatFamily::kSmolLm2:
      return chat_ml(messages, kSmolLmSystem, options);
    case ChatFamily::kQwen2:
      return chat_ml(messages, kQwen2System, options);
    case ChatFamily::kQwen25:
      return chat_ml(messages, kQwen25System, options);
    case ChatFamily::kQwen3:
      return qwen3(messages, options);
    case ChatFamily::kLlama3:
      return llama3(messages, false, options);
    case ChatFamily::kLlama31:
      return llama3(messages, true, options);
    case ChatFamily::kGemma:
      return gemma(messages, options);
    case ChatFamily::kZephyr:
      return zephyr(messages, options);
  }
  return Error{"chat: unknown family"};
}

std::optional<ChatFamily> detect_chat_family(std::string_view jinja_template) {
  const Template t(jinja_template);
  if (t.has("<|im_start|>")) return detect_chat_ml(t);
  if (t.has("<|start_header_id|>")) return detect_llama3(t);
  if (t.has("<start_of_turn>")) return detect_gemma(t);
  const bool zephyr = t.has_code("'<|user|>\n'+message['content']+eos_token") &&
                      t.has_code("'<|system|>\n'+message['content']+eos_token") &&
                      t.has_code("'<|assistant|>\n'+message['content']+eos_token") &&
                      t.has_code("{{'<|assistant|>'}}") && !t.has("bos_token");
  return zephyr ? std::optional(ChatFamily::kZephyr) : std::nullopt;
}

std::string_view name_of(ChatFamily family) noexcept {
  constexpr std::array<std::string_view, 9> kNames = {
      "ChatML", "SmolLM2", "Qwen2", "Qwen2.5", "Qwen3", "Llama 3", "Llama 3.1", "Gemma", "Zephyr"};
  const auto i = static_cast<std::size_t>(family);
  return i < kNames.size() ? kNames[i] : "unknown";
}

Result<ChatTemplates> parse_chat_templates(std::string_view tokenizer_config_json) {
  const Result<nlohmann::json> root = parse_json(tokenizer_config_json);
  if (!root) return root.error();
  ChatTemplates out;
  if (!root->is_object() || !root->contains("chat_template")) return out;
  const nlohmann::json& value = (*root)["chat_template"];
  if (value.is_string()) out.standard = value.get<std::string>();
  if (!value.is_array()) return out;
  for (const nlohmann::json& entry : value) {
    const Result<std::string> name = json_field<std::string>(entry, "name");
    Result<std::string> text = json_field<std::string>(entry, "template");
    if (name && text && *name == "default") out.standard = *std::move(text);
    if (name && text && *name == "tool_use") out.with_tools = *std::move(text);
  }
  return out;
}

}  // namespace forerun
