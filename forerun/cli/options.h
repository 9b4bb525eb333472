#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "forerun/cli/flags.h"
#include "forerun/cli/terminal.h"
#include "forerun/generate_options.h"
#include "forerun/model.h"

namespace forerun {
struct Certificate;
struct CostCurve;
struct CostOptions;
struct Difference;
struct RecommendedSampling;
}  // namespace forerun

namespace forerun::cli {

/// Titles in the help. Flags under kTextTitle, kDitTitle and kTokenTitle go with models of that
/// kind alone, those under kImageTitle with all that make images.
inline constexpr const char* kModelTitle = "Model";
inline constexpr const char* kDraftTitle = "Drafting";
inline constexpr const char* kTextTitle = "Text (language models)";
inline constexpr const char* kDiffusionTextTitle = "Text (diffusion language models)";
inline constexpr const char* kImageTitle = "Images";
inline constexpr const char* kDitTitle = "Images (Diffusion Transformers)";
inline constexpr const char* kTokenTitle = "Images (token by token)";
inline constexpr const char* kOutputTitle = "Output";

/// What a command is for; what kind a model is of.
enum class Makes : std::uint8_t { kTexts, kImages, kBoth, kTokenImages };

struct ModelFlags {
  std::string path;
  std::string precision = "auto";
  int threads = 0;
  PassRows rows = PassRows::kFew;  ///< by which `auto` chooses the precision of a language model
};
void bind_model(Command& command, ModelFlags& flags, Makes makes = Makes::kTexts,
                bool required = true);
/// One line on standard error where `auto` is not the fastest.
/// @throws UsageError  no such path, or no language model
Model load_model(const ModelFlags& flags);
/// Folders beside a model that its drafters may read by themselves.
std::vector<std::string> beside(const Model& model);
/// One line on standard error where conversations are not written by the model's own template.
void note_chat(const Model& model);
/// Nothing for "auto".
PrecisionRequest precision_of(const std::string& name);
void note_precision(const ChosenPrecision& chosen);

/// What the texts are held to: at most one of these.
struct FormFlags {
  std::string json_schema;           ///< the file of a schema
  std::string regex;                 ///< an expression
  std::vector<std::string> choices;  ///< texts
};

/// How far is drafted, and what decides on drafts: the same flags for texts and images.
struct DraftFlags {
  std::string drafter;  ///< "": the kind's own
  std::string precision = "auto";
  std::string rule;                        ///< empty: shared-noise for texts, maximal for images
  std::optional<std::uint32_t> max_draft;  ///< nothing: the kind's own
  bool fixed = false;
  std::uint64_t seed = 0;
  std::vector<std::string> logit_bias;  ///< of texts: TOKEN=BIAS
  FormFlags form;                       ///< of texts
};
/// @param most  what --max-draft is by default, in words
void bind_drafting(Command& command, DraftFlags& flags, Makes makes, const std::string& most);
void bind_drafter(Command& command, DraftFlags& flags, Makes makes);
/// The drafters of texts, for help.
std::string text_drafters();
Drafter load_drafter(const std::string& name, const std::string& precision, const Model& target);

/// --temp, --top-k, --top-p and --min-p.
void bind_sampling(Command& command, SamplingParams& sampling);
/// --presence-penalty, --frequency-penalty and --repetition-penalty.
void bind_penalties(Command& command, LogitChanges& changes);
/// --generation-config: "auto" or "none", which is "vllm" too. @param use  its default
void bind_generation_config(Command& command, std::string& use);
/// Where `use` is "auto", what the model's files recommend in place of what no flag of `command`
/// said; one line on standard error tells it.
/// @return  what was taken; the limit of an answer is left to the caller
/// @throws FormatError  what they say is wrong
RecommendedSampling take_recommended(SamplingParams& sampling, LogitChanges& changes,
                                     const Model& model, const Command& command,
                                     const std::string& use);
/// "temperature 0.6, top-k 20"; "": nothing.
std::string described(const RecommendedSampling& recommended);
/// How one text is drawn.
void bind_text(Command& command, GenerateOptions& options, DraftFlags& draft);
/// The options with what the drafting flags say.
/// @throws UsageError  a rule for images, a bias that is no TOKEN=BIAS, two forms
GenerateOptions text_options(const GenerateOptions& options, const DraftFlags& draft);
/// --chat-template-kwargs, a JSON object.
void bind_template_variables(Command& command, std::string& variables);
/// --json-schema, --regex and --choice, of commands that call `hold_to_form`.
void bind_form(Command& command, FormFlags& form);
/// Of answers in OpenAI's harmony format the final message has the form.
/// @param raw  the prompts are texts as they are
/// @throws UsageError  no such file, or a form that would not be kept
void hold_to_form(GenerateOptions& options, const FormFlags& form, const Model& model, bool raw);

/// One line of a prompts file.
struct Prompt {
  std::string text;
  std::string category;
};
/// @throws UsageError  missing file, or a line that is no object with a "prompt"; names file and
/// line
std::vector<Prompt> read_prompts(const std::string& path);
/// The prompts as the model reads them: in its chat format, or as they are.
std::vector<std::vector<Token>> encode_prompts(const Model& model,
                                               const std::vector<Prompt>& prompts, bool raw);

/// Shows the tokens generated so far, over several texts, and stops at Ctrl-C.
Listener counting(Progress& progress, std::size_t most);

/// Statistics of a run as JSON fields; `tau` never without its counters.
nlohmann::json to_json(const RunStatistics& statistics);
nlohmann::json to_json(const Difference& difference);
nlohmann::json to_json(const Certificate& certificate);
nlohmann::json to_json(const CostCurve& curve, const CostOptions& options, const Model& model);
/// "tau 2.31 (128 tokens / 55 passes)"
std::string tau_text(const RunStatistics& statistics);
/// "no bias found: 4000 tokens scored again, ..." for one line of a terminal.
std::string summary(const Certificate& certificate);
/// What is not drafted is not tested, and does not pass either.
bool passed(const Certificate& certificate);
/// Writes it for people, beginning with the verdict.
void show(const Certificate& certificate);
/// Why an equality held or not: "identical", or where and by what margin the texts part.
std::string describe(const Difference& difference);

void add_generate(Command& program);
void add_chat(Command& program);
void add_bench(Command& program);
void add_cost(Command& program);
void add_compare(Command& program);
void add_certify(Command& program);
void add_distill(Command& program);
void add_train(Command& program);
void add_profile(Command& program);
void add_evaluate(Command& program);
void add_info(Command& program);
void add_logits(Command& program);
void add_demo(Command& program);
void add_serve(Command& program);

}  // namespace forerun::cli
