#include "forerun/formats/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "forerun/base/harmony_text.h"
#include "forerun/base/json_text.h"
#include "forerun/base/python_space.h"

namespace forerun {
namespace {

using Json = nlohmann::ordered_json;

// The family whose marks are control tokens of the vocabulary.
std::optional<ChatFamily> family_of(const Tokenizer& tokenizer) {
  const auto has = [&](const char* name) {
    const std::optional<Token> token = tokenizer.token(name);
    return token && tokenizer.is_control(*token);
  };
  if (has("<|im_start|>") && has("<|im_end|>")) return ChatFamily::kChatMl;
  if (has("<|start_header_id|>") && has("<|eot_id|>")) return ChatFamily::kLlama3;
  if (has("<start_of_turn>") && has("<end_of_turn>")) return ChatFamily::kGemma;
  return std::nullopt;
}

std::string name_of(const Tokenizer& tokenizer, std::optional<Token> token) {
  return token ? std::string(tokenizer.name(*token)) : std::string();
}

// The names under which transformers hands special tokens to a template.
Json special_tokens(const Tokenizer& tokenizer) {
  Json out = Json::object();
  const auto add = [&](const char* name, std::optional<Token> token) {
    if (token) out[name] = name_of(tokenizer, token);
  };
  add("bos_token", tokenizer.bos());
  add("eos_token", tokenizer.eos());
  add("unk_token", tokenizer.unknown());
  add("pad_token", tokenizer.pad());
  return out;
}

Result<std::vector<ChatMessage>> plain_messages(const Json& messages) {
  std::vector<ChatMessage> out;
  for (const Json& m : messages) {
    const auto text = [&](const char* name) {
      const auto at = m.find(name);
      return at != m.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const auto calls = m.find("tool_calls");
    if (calls != m.end() && !calls->empty()) {
      return Error{"chat: this model has no template of its own, and its format none for calls"};
    }
    out.push_back({text("role"), text("content")});
  }
  return out;
}

// Stands behind the content of a last message that is to be continued, so that its end is found in
// what a template makes of it. Templates that trim contents trim the space. As in transformers.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

// Without the tag that harmony's templates refuse in a text.
std::string without_channels(std::string text) {
  constexpr std::string_view kTag = "<|channel|>", kBroken = "<| channel|>";
  for (std::size_t at = text.find(kTag); at != text.npos; at = text.find(kTag, at)) {
    text.replace(at, kTag.size(), kBroken);
  }
  return text;
}

// An answer of before as harmony's template wants it: its content without headers, its analysis.
void take_apart(Json& m) {
  const auto content = m.find("content");
  if (content != m.end() && content->is_string()) {
    HarmonyParts parts = harmony_parts(content->get_ref<const std::string&>());
    *content = without_channels(std::move(parts.content));
    if (!parts.analysis.empty()) m["thinking"] = std::move(parts.analysis);
  }
  const auto thoughts = m.find("reasoning_content");
  if (thoughts != m.end()) m.emplace("thinking", Json(*thoughts));  // unless it is there
  if (m.contains("thinking") && m["thinking"].is_string()) {
    m["thinking"] = without_channels(m["thinking"].get<std::string>());
  }
  if (m.contains("tool_calls") && m["tool_calls"].empty()) m.erase("tool_calls");
  // The template takes one of them beside a call: the analysis is what led to it.
  if (m.contains("tool_calls") && m.contains("thinking")) m["content"] = "";
}

bool is_role(const Json& m, const char* role) {
  return m.is_object() && m.value("role", Json()) == role;
}

// The template writes the first call of a message: each has a message of its own, with its result
// behind it. A result without the id of a call is that of the first that has none.
void put_calls(const Json& m, const Json& messages, std::size_t& next, Json& out) {
  std::vector<Json> results;
  for (; next < messages.size() && is_role(messages[next], "tool"); ++next) {
    results.push_back(messages[next]);
  }
  const auto take = [&](const auto& wanted) {
    const auto found = std::find_if(results.begin(), results.end(), wanted);
    if (found == results.end()) return false;
    out.push_back(*found);
    results.erase(found);
    return true;
  };
  const Json& calls = m["tool_calls"];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Json one = m;
    one["tool_calls"] = Json::array({calls[i]});
    if (i > 0) {
      one["content"] = "";
      one.erase("thinking");
    }
    out.push_back(std::move(one));
    const Json id = calls[i].is_object() ? calls[i].value("id", Json()) : Json();
    if (!take([&](const Json& r) {
          return !id.is_null() && r.value("tool_call_id", Json()) == id;
        })) {
      take([](const Json& r) { return !r.contains("tool_call_id"); });
    }
  }
  for (const Json& r : results) out.push_back(r);
}

// The template takes instructions of the first message alone, and passes over others.
Json with_one_instruction(const Json& messages) {
  Json out = Json::array(), first;
  for (const Json& m : messages) {
    const bool instructs = is_role(m, "system") || is_role(m, "developer");
    if (!instructs || !m.contains("content") || !m["content"].is_string()) {
      out.push_back(m);
    } else if (first.is_null()) {
      first = m;
    } else {
      first["content"].get_ref<std::string&>() += "\n\n" + m["content"].get<std::string>();
    }
  }
  if (!first.is_null()) out.insert(out.begin(), std::move(first));
  return out;
}

Json in_channels(const Json& given) {
  const Json messages = with_one_instruction(given);
  Json out = Json::array();
  for (std::size_t i = 0; i < messages.size();) {
    Json m = messages[i++];
    if (is_role(m, "assistant")) take_apart(m);
    const bool several = is_role(m, "assistant") && m.contains("tool_calls") &&
                         m["tool_calls"].is_array() && m["tool_calls"].size() > 1;
    if (several) {
      put_calls(m, messages, i, out);
    } else {
      out.push_back(std::move(m));
    }
  }
  return out;
}

// The template needs a description, which OpenAI's API does not.
Json described(Json tools) {
  for (Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    if (!tool["function"].contains("description")) tool["function"]["description"] = "";
  }
  return tools;
}

// Arguments as objects, of which the template takes the fields one by one; OpenAI's API has them as
// texts.
Json with_parsed_arguments(Json messages) {
  for (Json& m : messages) {
    if (!m.is_object() || !m.contains("tool_calls") || !m["tool_calls"].is_array()) continue;
    for (Json& call : m["tool_calls"]) {
      if (!call.is_object()) continue;
      Json& function = call.contains("function") ? call["function"] : call;
      if (!function.is_object() || !function.contains("arguments")) continue;
      Json& arguments = function["arguments"];
      if (!arguments.is_string()) continue;
      const auto text = python_rstripped(arguments.get_ref<const std::string&>());
      if (text.empty()) {
        arguments = Json::object();
      } else if (const auto parsed = parse_json(text, {.values = 20'000});
                 parsed && parsed->is_object()) {
        arguments = Json::parse(text);  // in their order
      }
    }
  }
  return messages;
}

Json with_tag(const Json& messages) {
  Json out = messages;
  Json& last = out.back();
  const bool text = last.is_object() && last.contains("content") && last["content"].is_string();
  last["content"] = (text ? last["content"].get<std::string>() : "").append(kContinueTag);
  return out;
}

// Where a text with the tag is to end: before it, and before white space that the template trims.
Result<std::size_t> end_of_last(std::string_view text) {
  const std::size_t at = text.rfind(kContinueTag.substr(0, kContinueTag.size() - 1));
  if (at == text.npos) {
    return Error{"chat: the template leaves out the last message, so that it cannot be continued"};
  }
  if (text.substr(at).starts_with(kContinueTag)) return at;
  return python_rstripped(text.substr(0, at)).size();
}

void cut_at(MarkedText& text, std::size_t end) {
  text.text.resize(end);
  while (!text.plain.empty() && text.plain.back().begin >= end) text.plain.pop_back();
  if (!text.plain.empty()) text.plain.back().end = std::min(text.plain.back().end, end);
}

}  // namespace

ChatFormat::ChatFormat(ChatTemplates templates, const Tokenizer& tokenizer)
    : templates_(std::move(templates)) {
  std::string why = "has no chat template";
  const auto parsed = [&](const std::string& text) -> std::optional<JinjaTemplate> {
    Result<JinjaTemplate> out = JinjaTemplate::parse(text);
    if (out) return *std::move(out);
    why = fmt::format("has a chat template that cannot be read ({})", out.error().message);
    return std::nullopt;
  };
  if (templates_.standard && templates_.standard->empty()) templates_.standard.reset();
  if (templates_.standard) {
    harmony_ = HarmonyText::in_template(*templates_.standard);
    tags_ = tokenizer.token("<|channel|>") && tokenizer.token("<|message|>");
    standard_ = parsed(*templates_.standard);
    if (standard_ && templates_.with_tools) with_tools_ = parsed(*templates_.with_tools);
    if (standard_) {
      find_calls();
      return;
    }
    family_ = detect_chat_family(*templates_.standard);
  }
  if (!family_) family_ = family_of(tokenizer);
  note_ = family_ ? fmt::format("{}: conversations are written as {} has them", why,
                                forerun::name_of(*family_))
                  : why;
}

// Calls of other forms would not be found in an answer.
void ChatFormat::find_calls() {
  const std::string& text = with_tools_ ? *templates_.with_tools : *templates_.standard;
  if (!(with_tools_ ? with_tools_ : standard_)->mentions("tools")) return;
  const auto holds = [&](const auto&... parts) { return ((text.find(parts) != text.npos) && ...); };
  if (harmony_) {  // HarmonyText rewrites them
    writes_tools_ = true;
  } else if (holds("<tool_call>", "<function=", "<parameter=")) {
    call_form_ = CallForm::kParameters;
    writes_tools_ = true;
  } else if (holds("<tool_call>", "<arg_key>", "<arg_value>")) {
    call_form_ = CallForm::kKeysValues;
    writes_tools_ = true;
  } else {
    writes_tools_ = holds("<tool_call>", "name", "arguments") && !holds("<function=");
  }
}

Result<MarkedText> ChatFormat::render(const Tokenizer& tokenizer, const Conversation& c) const {
  Json given = c.variables.is_object() ? c.variables : Json::object();
  const Json messages = harmony_                        ? in_channels(c.messages)
                        : call_form_ == CallForm::kJson ? c.messages
                                                        : with_parsed_arguments(c.messages);
  given["messages"] = c.continue_last ? with_tag(messages) : messages;
  given["tools"] = harmony_ && c.tools.is_array() ? described(c.tools) : c.tools;
  given["documents"] = nullptr;
  Json own = special_tokens(tokenizer);
  own["add_generation_prompt"] = c.add_generation_prompt && !c.continue_last;
  const bool tools = c.tools.is_array() && !c.tools.empty();
  const JinjaTemplate& with = tools && with_tools_ ? *with_tools_ : *standard_;
  return with.render(given, own, {.now = c.now});
}

Result<std::vector<Token>> ChatFormat::encode(const Tokenizer& tokenizer,
                                              const Conversation& c) const {
  if (!works()) return Error{note_};
  if (!c.messages.is_array() || c.messages.empty()) {
    return Error{"chat: no messages; give at least one"};
  }
  if (standard_) {
    Result<MarkedText> rendered = render(tokenizer, c);
    if (!rendered) {
      return Error{fmt::format("the model's chat template: {}", rendered.error().message)};
    }
    MarkedText text = *std::move(rendered);
    if (c.continue_last) {
      const Result<std::size_t> end = end_of_last(text.text);
      if (!end) return end.error();
      cut_at(text, *end);
    }
    return tokenizer.encode(text);
  }
  if (c.tools.is_array() && !c.tools.empty()) {
    return Error{"chat: this model has no template of its own, and its format no place for tools"};
  }
  const Result<std::vector<ChatMessage>> messages =
      plain_messages(c.continue_last ? with_tag(c.messages) : c.messages);
  if (!messages) return messages.error();
  Result<std::string> rendered =
      render_chat(*family_, *messages,
                  {.add_generation_prompt = c.add_generation_prompt && !c.continue_last,
                   .bos = name_of(tokenizer, tokenizer.bos()),
                   .eos = name_of(tokenizer, tokenizer.eos())});
  if (!rendered) return rendered.error();
  std::string text = *std::move(rendered);
  if (c.continue_last) {
    const Result<std::size_t> end = end_of_last(text);
    if (!end) return end.error();
    text.resize(*end);
  }
  return tokenizer.encode_prompt(text, Special::kParse);
}

}  // namespace forerun
