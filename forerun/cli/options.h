#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {

/// Flags that every command with a model has. One struct, one bind: a flag is declared once.
struct ModelFlags {
  std::string path;
  std::string precision = "auto";
  int threads = 0;
};
void bind(CLI::App& app, ModelFlags& flags);
Model load_model(const ModelFlags& flags);

/// How one text is drawn.
struct SamplingFlags {
  std::string rule = "maximal";
  GenerateOptions options;
};
void bind(CLI::App& app, SamplingFlags& flags);
/// The options with the rule's name resolved.
GenerateOptions resolve(const SamplingFlags& flags);

struct DrafterFlags {
  std::string name = "lookup";
  std::string precision = "auto";
};
void bind(CLI::App& app, DrafterFlags& flags);
void bind_draft_precision(CLI::App& app, std::string& precision);
Drafter load_drafter(const std::string& name, const std::string& precision, const Model& target);

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
/// "certificate: exact, z = +0.4, ..." for one line of a terminal.
std::string summary(const Certificate& certificate);
/// Why an equality held or not: "identical", or where and by what margin the texts part.
std::string describe(const Difference& difference);

/// A subcommand: its flags bound, and what to run once they are parsed.
using Action = std::function<int()>;
Action add_generate(CLI::App& parent, CLI::App*& command);
Action add_chat(CLI::App& parent, CLI::App*& command);
Action add_bench(CLI::App& parent, CLI::App*& command);
Action add_cost(CLI::App& parent, CLI::App*& command);
Action add_compare(CLI::App& parent, CLI::App*& command);
Action add_certify(CLI::App& parent, CLI::App*& command);
Action add_distill(CLI::App& parent, CLI::App*& command);
Action add_train(CLI::App& parent, CLI::App*& command);
Action add_info(CLI::App& parent, CLI::App*& command);
Action add_logits(CLI::App& parent, CLI::App*& command);
Action add_demo(CLI::App& parent, CLI::App*& command);

}  // namespace forerun::cli
