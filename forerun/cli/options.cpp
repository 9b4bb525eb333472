#include "forerun/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/diffusion_text.h"
#include "forerun/image.h"
#include "forerun/method.h"
#include "forerun/text.h"
#include "forerun/token_image.h"

namespace forerun::cli {
namespace {

const std::vector<std::string> kPrecisions = {"auto", "f32", "bf16", "int8", "int4", "file"};
const std::vector<std::string> kTextRules = {"maximal",      "block",   "match",
                                             "shared-noise", "typical", "ratio-on-search"};

std::pair<Token, float> bias_of(const std::string& text) {
  Token token = 0;
  float bias = 0.0F;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, token);
  const bool more = id.ec == std::errc() && id.ptr != end && *id.ptr == '=';
  if (more) {
    const auto value = std::from_chars(id.ptr + 1, end, bias);
    if (value.ec == std::errc() && value.ptr == end) return {token, bias};
  }
  throw UsageError(fmt::format("--logit-bias {}: write TOKEN=BIAS, as 42=-100", printable(text)));
}

void expect_one_form(const FormFlags& form, bool ignore_end) {
  std::string name;
  const auto take = [&name](bool given, const char* flag) {
    if (!given) return;
    if (!name.empty()) {
      throw UsageError(fmt::format("{} and {}: an answer has one form, give one", name, flag));
    }
    name = flag;
  };
  take(!form.json_schema.empty(), "--json-schema");
  take(!form.regex.empty(), "--regex");
  take(!form.choices.empty(), "--choice");
  if (ignore_end && !name.empty()) {
    throw UsageError(fmt::format("{} and --ignore-end: the answer ends where its form does", name));
  }
}

const char* precision_help(Makes makes, PassRows rows) {
  if (rows == PassRows::kMany) {
    return "What passes are computed in; auto: int8 where processor and memory allow it, so that "
           "runs resume on other processors; without AVX2 f32. int4: what a GGUF file stores in 4 "
           "bits stays so, faster than int8 with AVX2 alone; file: weights stay in their file";
  }
  switch (makes) {
    case Makes::kTexts:
      return "What passes are computed in; auto: int4 for GGUF files with half of their weights in "
             "Q4_0, Q4_1, Q4_K or MXFP4, which then stay in 4 bits; else int8; without AVX2 f32; "
             "file: "
             "weights stay in their file. With AVX-512 int8 is faster than "
             "int4 for many texts at a time and for long prompts";
    case Makes::kBoth:
      return "What passes are computed in; auto: texts in int4 for GGUF files with half of their "
             "weights in Q4_0, Q4_1, Q4_K or MXFP4, else in int8; images in bf16, token by token "
             "where "
             "the processor has bf16 products; else f32. file (texts): "
             "weights stay in their file";
    case Makes::kImages:
    case Makes::kTokenImages:
      break;
  }
  return "What passes are computed in; auto: bf16, of image-token models where the processor has "
         "bf16 products; else f32";
}

// Answers or a network that were not named are drafted from.
void note_found(const std::string& name, const Drafter& drafter) {
  const std::vector<std::string> named = drafter_parts(name);
  for (const std::string& part : drafter.parts()) {
    const bool found =
        part.find(':') != part.npos && std::find(named.begin(), named.end(), part) == named.end();
    if (!found) continue;
    note(styled(stderr, Style::kDim, fmt::format("drafts from {} too", printable(part))));
  }
  if (!drafter.left_out().empty()) {
    note(fmt::format("left out, beside the model: {}", printable(drafter.left_out())));
  }
}

}  // namespace

void bind_model(Command& command, ModelFlags& f, Makes makes, bool required) {
  command.group(kModelTitle);
  const char* const text =
      "GGUF file, Hugging Face folder, or ORG/NAME as hf download has put it into its cache";
  const char* const image =
      "Diffusion Transformer: folder of forerun or diffusers, or safetensors file with "
      "facebookresearch/DiT's names. Image-token model (MAR): folder of forerun";
  command.add("-m,--model", f.path,
              makes == Makes::kTexts    ? text
              : makes == Makes::kImages ? image
                                        : fmt::format("Language model: {}. {}", text, image),
              {.required = required, .shows = "PATH", .means = local_model});
  command.add("--precision", f.precision, precision_help(makes, f.rows),
              {.one_of = kPrecisions, .shows = "NAME"});
  command.add("--threads", f.threads, "CPU threads, 0 = one a core", {.least = 0, .most = 1024});
  command.group("");
}

PrecisionRequest precision_of(const std::string& name) { return precision_from_name(name); }

void note_precision(const ChosenPrecision& chosen) {
  if (chosen.fastest) return;
  note(styled(stderr, Style::kDim,
              fmt::format("precision {} ({})", name_of(chosen.precision), chosen.reason)));
}

std::vector<std::string> beside(const Model& model) {
  return {drafter_folder(model), answers_folder(model)};
}

Model load_model(const ModelFlags& f) {
  const EndsAtFirst loading;
  expect_path(f.path);
  if (is_diffusion_model(f.path) || is_token_image_model(f.path)) {
    throw UsageError(fmt::format(
        "{} holds {}, not a language model; generate, bench, certify, profile and "
        "evaluate are for both or for these",
        f.path, is_diffusion_model(f.path) ? "a Diffusion Transformer" : "an image-token model"));
  }
  if (is_diffusion_language_model(f.path)) {
    throw UsageError(fmt::format(
        "{} holds a diffusion language model, which does not write token by token; generate is for "
        "it",
        f.path));
  }
  set_threads(f.threads);
  PrecisionRequest precision = precision_of(f.precision);
  if (!precision && f.rows != PassRows::kFew) {
    const ChosenPrecision chosen = auto_precision(f.path, f.rows);
    note_precision(chosen);
    precision = chosen.precision;
  }
  Model model = Model::load(f.path, precision);
  note_precision(model.chosen_precision());
  return model;
}

std::string text_drafters() {
  std::string out = "none";
  for (const DrafterInfo& d : registered_drafters()) out += ", " + d.usage();
  return out + "; sources without a network can be added with a plus";
}

void bind_drafter(Command& command, DraftFlags& f, Makes makes) {
  command.group(kDraftTitle);
  const std::string text = text_drafters();
  const char* const image =
      "none, free:FOLDER, asd, frozen, or self (the model itself); token by token: none, "
      "cspd:FOLDER, or self (Jacobi iteration)";
  std::string help = makes == Makes::kTexts ? text : std::string(image);
  std::string standard = makes == Makes::kTexts ? "auto" : "none";
  if (makes == Makes::kBoth) {
    help = fmt::format("Texts: {}. Images: {}", text, image);
    standard = "auto for texts, none for images";
  }
  command.add("-d,--drafter", f.drafter, help, {.shows = "NAME", .standard = standard});
  command.group("");
}

void bind_drafting(Command& command, DraftFlags& f, Makes makes, const std::string& most) {
  command.group(kDraftTitle);
  std::vector<std::string> rules = kTextRules;
  std::string help = "What decides on drafts; typical, ratio-on-search";
  if (makes == Makes::kImages) {
    rules = {"maximal", "block"};
    help = "What decides on drafts";
  }
  if (makes != Makes::kTexts) {
    rules.insert(rules.end(), {"relax", "stepwise", "path", "paper", "code"});
    help += makes == Makes::kBoth ? " and, of images, relax" : "; relax (needs --profile)";
  }
  help += makes == Makes::kImages ? " is INEXACT" : " are INEXACT, for comparison";
  if (makes != Makes::kTexts) {
    help += ". Token by token: stepwise or path; paper, code as published are INEXACT";
  }
  std::string standard = makes == Makes::kImages ? "" : "shared-noise for texts";
  if (makes == Makes::kTexts) standard = "shared-noise";
  if (makes == Makes::kBoth) standard += ", ";
  if (makes != Makes::kTexts) standard += "maximal for images, stepwise token by token";
  command.add("--rule", f.rule, help, {.one_of = rules, .shows = "NAME", .standard = standard});
  command.add("--max-draft", f.max_draft,
              fmt::format("Drafted {} a round at most; 0 = no drafts",
                          makes == Makes::kTexts    ? "tokens"
                          : makes == Makes::kImages ? "steps, or tokens of an image,"
                                                    : "tokens (64 at most), or steps of an image,"),
              {.least = 0, .most = makes == Makes::kTexts ? 64.0 : 1023.0, .standard = most});
  if (f.fixed) {
    command.add("--adaptive", f.fixed,
                "Draft as far as pays, as generate does, instead of --max-draft always");
  } else {
    command.add("--fixed-draft", f.fixed,
                fmt::format("Always draft that many, instead of as many as pay on this machine; "
                            "{} then depend on the seed alone, not on the clock",
                            makes == Makes::kTexts ? "texts sampled with a drafting model"
                                                   : "images, and texts sampled with a drafting "
                                                     "model,"));
  }
  command.add("--seed", f.seed, "Of all that is random");
  command.group("");
}

Drafter load_drafter(const std::string& name, const std::string& precision, const Model& target) {
  const EndsAtFirst loading;
  Drafter drafter = Drafter::load(name, target, precision_of(precision));
  if (const auto model = drafter.model()) note_precision(model->chosen_precision());
  note_found(name, drafter);
  return drafter;
}

void bind_sampling(Command& command, SamplingParams& sampling) {
  command.add("--temp", sampling.temperature, "Temperature, 0 = greedy",
              {.least = 0, .most = 1000, .old = "--temperature"});
  command.add("--top-k", sampling.top_k, "Keep the k likeliest tokens, 0 = all");
  command.add("--top-p", sampling.top_p, "Keep the likeliest tokens that make up p",
              {.least = 0, .most = 1});
  command.add("--min-p", sampling.min_p, "Drop tokens below this share of the likeliest one",
              {.least = 0, .most = 1});
}

void bind_penalties(Command& command, LogitChanges& c) {
  command.add("--presence-penalty", c.presence_penalty,
              "Subtracted from the logits of tokens that the answer holds",
              {.least = -100, .most = 100});
  command.add("--frequency-penalty", c.frequency_penalty,
              "The same for every time that the answer holds them", {.least = -100, .most = 100});
  command.add("--repetition-penalty", c.repetition_penalty,
              "Divides logits above 0, and multiplies others, of tokens in prompt or answer; 1 = "
              "none",
              {.least = 0.01, .most = 100, .old = "--repeat-penalty"});
}

void bind_text(Command& command, GenerateOptions& o, DraftFlags& draft) {
  command.group(kTextTitle);
  command.add("-n,--max-tokens", o.max_tokens, "Tokens of a text at most",
              {.least = 1, .most = 1 << 20, .old = "--n-predict,--max-new-tokens"});
  bind_sampling(command, o.sampling);
  bind_penalties(command, o.changes);
  command.add("--logit-bias", draft.logit_bias,
              "Added to the logit of the token with this id; may be given several times",
              {.shows = "TOKEN=BIAS"});
  command.add("--stop", o.stop, "Text that ends the answer; may be given several times");
  command.add("--ignore-end", o.ignore_end, "Continue after end-of-sequence tokens",
              {.old = "--ignore-eos"});
  command.add("--draft-precision", draft.precision, "Precision of a drafting model",
              {.one_of = kPrecisions, .shows = "NAME"});
  command.group("");
}

GenerateOptions text_options(const GenerateOptions& options, const DraftFlags& draft) {
  constexpr std::uint32_t kMost = 64;
  GenerateOptions o = options;
  if (!draft.rule.empty()) {
    const auto rule = rule_from_name(draft.rule);
    if (!rule || is_for_chains(*rule)) {
      throw UsageError(fmt::format("--rule {} is for images", draft.rule));
    }
    o.rule = *rule;
  }
  if (draft.max_draft) o.max_draft = *draft.max_draft;
  if (o.max_draft > kMost) {
    throw UsageError(fmt::format("--max-draft {}: texts are drafted {} tokens a round at most",
                                 o.max_draft, kMost));
  }
  o.fixed_draft = draft.fixed;
  o.seed = draft.seed;
  expect_one_form(draft.form, o.ignore_end);
  for (const std::string& bias : draft.logit_bias) o.changes.bias.push_back(bias_of(bias));
  return o;
}

void bind_template_variables(Command& command, std::string& variables) {
  command.add(
      "--chat-template-kwargs", variables,
      "Variables for the model's chat template, as '{\"enable_thinking\": false}' of Qwen 3's",
      {.shows = "JSON"});
}

void bind_form(Command& command, FormFlags& form) {
  command.group(kTextTitle);
  command.add("--json-schema", form.json_schema,
              "The answer is JSON of this schema, and nothing else", {.shows = "FILE"});
  command.add("--regex", form.regex,
              "The answer is what this regular expression matches as a whole, as '[a-z]+@[a-z.]+'",
              {.shows = "EXPR"});
  command.add("--choice", form.choices,
              "The answer is one of these texts; given once for each of them", {.shows = "TEXT"});
  command.group("");
}

void hold_to_form(GenerateOptions& options, const FormFlags& form, const Model& model, bool raw) {
  const ReasoningStart start =
      !raw && model.answers_in_channels() ? ReasoningStart::kChannels : ReasoningStart::kAfter;
  if (!form.choices.empty()) options.changes.grammar = model.choice_grammar(form.choices, start);
  if (!form.regex.empty()) options.changes.grammar = model.regex_grammar(form.regex, start);
  if (form.json_schema.empty()) return;
  const std::string schema = read_input(form.json_schema, "schema file");
  try {
    options.changes.grammar = model.json_grammar(schema, start);
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", form.json_schema, e.what()));
  }
}

std::vector<Prompt> read_prompts(const std::string& path) {
  std::istringstream in(read_input(path, "prompts file"));
  std::vector<Prompt> out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<nlohmann::json> j = parse_json(line);
    const Result<std::string> prompt =
        j ? json_field<std::string>(*j, "prompt") : Result<std::string>(j.error());
    if (!prompt) {
      throw UsageError(
          fmt::format("{}:{}: expected a JSON object with a string \"prompt\" on every line; {}",
                      path, number, prompt.error().message));
    }
    const Result<std::string> category = json_field<std::string>(*j, "category");
    out.push_back({*prompt, category ? *category : std::string()});
  }
  if (out.empty()) throw UsageError(fmt::format("the prompts file '{}' holds no prompt", path));
  return out;
}

void note_chat(const Model& model) {
  if (const std::string line = model.chat_note(); !line.empty()) note(printable(line, 1000));
}

std::vector<std::vector<Token>> encode_prompts(const Model& model,
                                               const std::vector<Prompt>& prompts, bool raw) {
  std::vector<std::vector<Token>> out;
  if (!raw) note_chat(model);
  for (const Prompt& p : prompts) {
    const Message turn{"user", p.text};
    out.push_back(raw ? model.encode(p.text) : model.encode_chat({&turn, 1}));
    if (out.back().empty()) {
      throw UsageError(fmt::format("prompt {} holds no token: give some text", out.size()));
    }
    if (out.back().size() >= model.context()) {
      throw UsageError(
          fmt::format("prompt {} has {} tokens, the model's context holds {}: shorten it",
                      out.size(), out.back().size(), model.context()));
    }
  }
  return out;
}

Listener counting(Progress& progress, std::size_t most) {
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  listener.on_round = [&progress, most, done = std::size_t{0},
                       last = std::uint64_t{0}](const RunStatistics& s) mutable {
    if (s.outputs < last) last = 0;  // the next text
    done += s.outputs - last;
    last = s.outputs;
    progress.show(fmt::format("{} of {} tokens", std::min(done, most), most));
  };
  return listener;
}

nlohmann::json to_json(const RunStatistics& s) {
  return {{"tau", s.tau()},
          {"rounds", s.rounds},
          {"outputs", s.outputs},
          {"drafted", s.drafted},
          {"lengths", s.lengths},
          {"examined", s.examined},
          {"accepted", s.accepted},
          {"acceptance_by_position", s.acceptance_by_position()},
          {"seconds_drafter", s.seconds.drafter},
          {"seconds_target", s.seconds.target},
          {"seconds_rest", s.seconds.rest}};
}

std::string tau_text(const RunStatistics& s) {
  return fmt::format("tau {:.2f} ({} tokens / {} passes)", s.tau(), s.outputs, s.rounds);
}

}  // namespace forerun::cli
