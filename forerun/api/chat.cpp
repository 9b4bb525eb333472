// Conversations as tokens.

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "forerun/api/load_text_model.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/json_text.h"

namespace forerun {
namespace {

using Json = nlohmann::ordered_json;

// Objects that keep their order take time by the square of their size.
bool has_large_object(const nlohmann::json& value) {
  constexpr std::size_t kMost = 1024;
  if (value.is_object() && value.size() > kMost) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), has_large_object);
}

// What a caller gave as JSON, in its order.
Json parsed(const std::string& text, const char* what, bool list) {
  if (text.empty()) return list ? Json() : Json::object();
  const Result<nlohmann::json> sound = parse_json(text);
  if (!sound) throw UsageError(fmt::format("{}: {}", what, sound.error().message));
  if (list ? !sound->is_array() : !sound->is_object()) {
    throw UsageError(fmt::format("{}: give a JSON {}", what, list ? "list" : "object"));
  }
  if (has_large_object(*sound)) {
    throw UsageError(fmt::format("{}: an object has more than 1024 fields", what));
  }
  return Json::parse(text);
}

Json as_json(std::span<const Message> messages) {
  Json out = Json::array();
  for (const Message& m : messages) {
    Json message = {{"role", m.role}, {"content", m.content}};
    const Json fields = parsed(m.fields, "fields of a message", false);
    for (const auto& [name, value] : fields.items()) {
      message[name] = value;
    }
    out.push_back(std::move(message));
  }
  return out;
}

// The clock on the wall, as seconds.
std::int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return static_cast<std::int64_t>(now) + parts.tm_gmtoff;
}

}  // namespace

std::vector<Token> encode_chat(const Model::Impl& model, std::span<const Message> messages,
                               const ChatInput& input) {
  if (!model.chat.works()) {
    throw UsageError(
        fmt::format("{}: {}; give the text as it is (encode, or `forerun generate --raw`)",
                    model.path, model.chat.note()));
  }
  const Json turns = as_json(messages), tools = parsed(input.tools, "tools", true),
             variables = parsed(input.variables, "variables of the chat template", false);
  const Result<std::vector<Token>> tokens =
      model.chat.encode(model.tokenizer, {.messages = turns,
                                          .tools = tools,
                                          .variables = variables,
                                          .add_generation_prompt = input.add_generation_prompt,
                                          .continue_last = input.continue_last,
                                          .now = local_now()});
  if (!tokens) throw UsageError(tokens.error().message);
  return *tokens;
}

std::vector<Token> Model::encode_chat(std::span<const Message> messages,
                                      const ChatInput& input) const {
  return forerun::encode_chat(*impl_, messages, input);
}

std::string Model::chat_note() const {
  return impl_->chat.note().empty() ? "" : fmt::format("{} {}", path(), impl_->chat.note());
}

bool Model::chat_writes_tools() const { return impl_->chat.writes_tools(); }

CallForm Model::call_form() const { return impl_->chat.call_form(); }

bool Model::answers_in_channels() const { return impl_->chat.answers_in_channels(); }

}  // namespace forerun
