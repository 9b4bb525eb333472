#include "forerun/serve/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "forerun/serve/api_error.h"
#include "forerun/serve/chat_messages.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/json.h"
#include "forerun/serve/request_fields.h"

namespace forerun::serve {
namespace {

constexpr std::size_t kMostStops = 64, kMostStopBytes = 1024;
constexpr std::int64_t kMostTop = 20;
constexpr std::size_t kMostBiased = 1024;

// Fields that would change what is generated, and the values that leave it as it is. Others that
// the server does not know are ignored, as clients send many.
struct Unsupported {
  const char* name;
  nlohmann::json neutral;
};
const std::vector<Unsupported>& unsupported() {
  static const std::vector<Unsupported> all = {
      {"functions", nlohmann::json::array()},
      {"function_call", "none"},
      {"audio", nullptr},
      {"modalities", nlohmann::json::array({"text"})},
      {"typical_p", 1},
      {"tfs_z", 1},
      {"mirostat", 0},
      {"dry_multiplier", 0},
      {"xtc_probability", 0},
      {"grammar", ""},
      {"ebnf", nullptr},
      {"guided_grammar", nullptr},
      {"structural_tag", nullptr},
      {"chat_template", nullptr},
      {"documents", nlohmann::json::array()},
      {"dynatemp_range", 0},
      {"top_n_sigma", -1},
      {"truncate_prompt_tokens", nullptr},
      {"include_stop_str_in_output", false},
      {"skip_special_tokens", true},
      {"return_token_ids", false},
      {"return_tokens", false},
      {"n_probs", 0},
      {"bad_words", nlohmann::json::array()},
      {"allowed_token_ids", nullptr},
      {"use_beam_search", false},
      {"stop_token_ids", nlohmann::json::array()},
      {"prompt_logprobs", nullptr},
  };
  return all;
}

void refuse_unsupported(const Fields& fields) {
  for (const auto& [name, neutral] : unsupported()) {
    const nlohmann::json* value = fields.find(name);
    if (value == nullptr || *value == neutral) continue;
    throw bad_field(name, "is not supported by this server: leave it out");
  }
  if (fields.find("extra_body") != nullptr) {
    throw bad_field("extra_body",
                    "is an argument of the openai package: send its fields in the request itself");
  }
  // Text that does not end before its limit has as many tokens as any minimum.
  if (fields.whole("min_tokens", 0, INT32_MAX).value_or(0) > 0 &&
      !fields.flag("ignore_eos", false)) {
    throw bad_field("min_tokens", "is supported with \"ignore_eos\": true alone");
  }
}

void read_speculative(GenerationRequest& r, const Fields& fields, const ServedModel& served) {
  r.drafter = served.drafters.front();
  const nlohmann::json* given = fields.find("speculative");
  if (given == nullptr) return;
  const Fields speculative(*given, "speculative.");
  r.rounds = speculative.flag("rounds", false);
  if (const auto name = speculative.text("drafter")) {
    const auto known =
        std::find_if(served.drafters.begin(), served.drafters.end(), [&](const Drafter& d) {
          return d.name() == *name || d.name().substr(0, d.name().find(':')) == *name;
        });
    if (known == served.drafters.end() && *name != "none") {
      std::string names = "none";
      for (const Drafter& d : served.drafters) {
        if (!d.none()) names += ", " + d.name().substr(0, d.name().find(':'));
      }
      throw bad_field("speculative.drafter", "is none of this server's: " + names);
    }
    r.drafter = known == served.drafters.end() ? Drafter() : *known;
  }
  if (speculative.flag("off", false)) r.drafter = Drafter();
}

void read_stop(GenerationRequest& r, const Fields& fields) {
  r.options.stop = fields.texts("stop", kMostStops);
  for (const std::string& s : r.options.stop) {
    if (s.empty()) throw bad_field("stop", "holds an empty string: leave it out");
    if (s.size() > kMostStopBytes) {
      throw bad_field(
          "stop", fmt::format("holds a string of {} bytes: {} at most", s.size(), kMostStopBytes));
    }
  }
}

void read_sampling(GenerationRequest& r, const Fields& fields, const SamplingParams& standard) {
  SamplingParams& s = r.options.sampling;
  s.temperature = fields.number("temperature", 0.0, 1000.0).value_or(standard.temperature);
  s.top_p = fields.number("top_p", 0.0, 1.0).value_or(standard.top_p);
  s.top_k = static_cast<std::uint32_t>(
      std::max<std::int64_t>(0, fields.whole("top_k", -1, INT32_MAX).value_or(standard.top_k)));
  s.min_p = fields.number("min_p", 0.0, 1.0).value_or(standard.min_p);
  r.options.seed = read_seed(fields);
}

// llama.cpp's list of pairs as OpenAI's object; false is the strongest bias against a token.
nlohmann::json bias_as_object(const nlohmann::json& given) {
  if (!given.is_array()) return given;
  nlohmann::json out = nlohmann::json::object();
  for (const nlohmann::json& pair : given) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer()) {
      throw bad_field("logit_bias", "is wrong: send an object, or a list of pairs [token, bias]");
    }
    out[pair[0].dump()] = pair[1] == false ? nlohmann::json(-100) : pair[1];
  }
  return out;
}

// Token ids as names, as JSON has no others.
std::vector<std::pair<Token, float>> read_bias(const nlohmann::json& given, std::size_t vocab) {
  const nlohmann::json object = bias_as_object(given);
  const Fields fields(object, "logit_bias.");
  if (object.size() > kMostBiased) {
    throw bad_field("logit_bias",
                    fmt::format("holds {} tokens: {} at most", object.size(), kMostBiased));
  }
  std::vector<std::pair<Token, float>> out;
  for (const auto& [name, value] : object.items()) {
    Token token = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, token);
    if (error != std::errc() || stop != end || token < 0 ||
        static_cast<std::size_t>(token) >= vocab) {
      throw bad_field("logit_bias", fmt::format("holds '{}': the model's tokens are 0 to {}",
                                                name.substr(0, 100), vocab - 1));
    }
    out.emplace_back(token, static_cast<float>(fields.number(name, -100.0, 100.0).value_or(0.0)));
  }
  return out;
}

void read_changes(GenerationRequest& r, const Fields& fields, const ServedModel& served) {
  LogitChanges& c = r.options.changes;
  const LogitChanges& standard = served.changes;
  c.presence_penalty =
      fields.number("presence_penalty", -2.0, 2.0).value_or(standard.presence_penalty);
  c.frequency_penalty =
      fields.number("frequency_penalty", -2.0, 2.0).value_or(standard.frequency_penalty);
  c.repetition_penalty = standard.repetition_penalty;
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {  // llama.cpp's and vLLM's
    if (const auto penalty = fields.number(name, 0.01, 100.0)) c.repetition_penalty = *penalty;
  }
  if (const nlohmann::json* bias = fields.find("logit_bias")) {
    c.bias = read_bias(*bias, served.model.vocab());
  }
}

GenerationRequest read_common(const Fields& fields, const ServedModel& served) {
  check_model(fields, served.id, served.aliases);
  refuse_unsupported(fields);
  GenerationRequest r;
  r.options.rule = served.rule;
  r.options.max_draft = served.max_draft;
  r.options.fixed_draft = served.fixed_draft;
  r.options.trace = true;  // rounds are counted, and shown
  read_sampling(r, fields, served.sampling);
  read_changes(r, fields, served);
  read_stop(r, fields);
  read_speculative(r, fields, served);
  r.options.ignore_end = fields.flag("ignore_eos", false);
  r.stream = fields.flag("stream", false);
  if (const nlohmann::json* options = fields.find("stream_options")) {
    const Fields of(*options, "stream_options.");
    // vLLM's, with which usage comes unless it is declined.
    const bool so_far = of.flag("continuous_usage_stats", false);
    r.usage_chunk = of.flag("include_usage", so_far);
    r.usage_so_far = so_far && r.usage_chunk;
    if (!r.stream) throw bad_field("stream_options", "is for streams: send \"stream\": true too");
  }
  r.n = static_cast<std::size_t>(
      fields.whole("n", 1, static_cast<std::int64_t>(served.max_choices)).value_or(1));
  if (const auto best = fields.whole("best_of", 1, INT32_MAX);
      best && static_cast<std::size_t>(*best) != r.n) {
    throw bad_field("best_of", "is not supported: leave it out, or make it n");
  }
  return r;
}

// Prompts that fit, and how many tokens may follow.
void check_lengths(GenerationRequest& r, const ServedModel& served, const std::string& param,
                   std::optional<std::int64_t> wanted) {
  if (r.choices() > served.max_choices) {
    throw bad_field("n", fmt::format("makes {} texts of {} prompts: {} at most", r.choices(),
                                     r.prompts.size(), served.max_choices));
  }
  const std::size_t context = served.model.context();
  std::size_t longest = 0;
  for (const auto& prompt : r.prompts) {
    if (prompt.empty()) throw bad_field(param, "holds no token: give some text");
    longest = std::max(longest, prompt.size());
  }
  const std::size_t room = context - std::min(context, longest);
  const bool scored_only = wanted == 0 && longest == context;
  if (room == 0 && !scored_only) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, the model's context holds {}: shorten it",
                               longest, context),
                   param, "context_length_exceeded");
  }
  // The engine ends a text where the context does, as other servers do.
  const auto most = static_cast<std::int64_t>(context);
  r.options.max_tokens = static_cast<std::uint32_t>(std::min(wanted.value_or(most), most));
}

void read_completion_prompts(GenerationRequest& r, const nlohmann::json& prompt,
                             const ServedModel& served) {
  const auto add_text = [&](const std::string& text) {
    check_text_size(text, served, "prompt");
    r.prompts.push_back(served.model.encode(text));
    r.prompt_texts.push_back(text);
  };
  const auto add_tokens = [&](const nlohmann::json& list) {
    r.prompts.push_back(tokens_of(list, "prompt", served.model.vocab()));
    r.prompt_texts.push_back(served.model.decode(r.prompts.back()));
  };
  if (prompt.is_string()) return add_text(prompt.get<std::string>());
  if (!prompt.is_array() || prompt.empty()) {
    throw bad_field("prompt",
                    "is wrong: send a string, a list of strings, a list of tokens, or a "
                    "list of such lists");
  }
  if (prompt.front().is_number()) return add_tokens(prompt);
  if (prompt.size() > served.max_choices) {
    throw bad_field("prompt",
                    fmt::format("holds {} prompts: {} at most", prompt.size(), served.max_choices));
  }
  for (const nlohmann::json& p : prompt) {
    p.is_string() ? add_text(p.get<std::string>()) : add_tokens(p);
  }
}

}  // namespace

void check_text_size(const std::string& text, const ServedModel& served, const std::string& param) {
  if (text.size() <= served.max_prompt_bytes) return;
  throw ApiError(400,
                 fmt::format("the text has {} bytes, the model's context holds {} tokens: shorten "
                             "it",
                             text.size(), served.model.context()),
                 param, "context_length_exceeded");
}

namespace {

// The most tokens of a text; -1 is as many as the context holds. n_predict is llama.cpp's name.
std::optional<std::int64_t> read_most(const Fields& fields, std::int64_t least) {
  for (const char* name : {"max_completion_tokens", "max_tokens", "n_predict"}) {
    const auto most = fields.whole(name, -1, INT32_MAX);
    if (!most) continue;
    if (*most == -1) return INT64_MAX;
    if (*most < least) throw bad_field(name, fmt::format("is {}: send {} or more", *most, least));
    return most;
  }
  return std::nullopt;
}

}  // namespace

GenerationRequest parse_chat(std::string_view text, const ServedModel& served) {
  const nlohmann::json body = parse_object(text);
  const Fields fields(body);
  GenerationRequest r = read_common(fields, served);
  const ChatPrompt prompt = parse_chat_prompt(body, text, served);
  r.prompts.push_back(encode(prompt, served));
  r.reasoning = reasoning_of(fields, prompt, r.prompts.front(), served);
  if (fields.flag("logprobs", false)) {
    r.top = static_cast<std::size_t>(fields.whole("top_logprobs", 0, kMostTop).value_or(0));
  } else if (fields.whole("top_logprobs", 0, kMostTop).value_or(0) > 0) {
    throw bad_field("top_logprobs", "needs \"logprobs\": true");
  }
  std::optional<std::int64_t> most = read_most(fields, 1);
  if (!most && served.max_tokens) most = *served.max_tokens;
  check_lengths(r, served, "messages", most);
  read_constraints(r, body, text, served);  // last: a grammar may take a second to compile
  return r;
}

GenerationRequest parse_completion(std::string_view text, const ServedModel& served) {
  constexpr std::int64_t kStandard = 16;  // as OpenAI's
  const nlohmann::json body = parse_object(text);
  const Fields fields(body);
  GenerationRequest r = read_common(fields, served);
  r.api = Api::kCompletions;
  const nlohmann::json* prompt = fields.find("prompt");
  if (prompt == nullptr) throw bad_field("prompt", "is missing: send the text to continue");
  if (!fields.text("suffix").value_or("").empty()) {
    throw bad_field("suffix", "is not supported: the model continues a text, it fills no gap");
  }
  read_completion_prompts(r, *prompt, served);
  r.echo = fields.flag("echo", false);
  if (const auto top = fields.whole("logprobs", 0, kMostTop)) {
    r.top = static_cast<std::size_t>(*top);
  }
  // With none to generate, what is echoed is scored.
  check_lengths(r, served, "prompt", read_most(fields, r.echo ? 0 : 1).value_or(kStandard));
  read_constraints(r, body, text, served);
  return r;
}

}  // namespace forerun::serve
