#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/train.h"

namespace forerun::cli {
namespace {

struct DistillFlags {
  ModelFlags model{.rows = PassRows::kMany};
  DistillOptions options;
  std::string prompts, out;
  bool json = false;
};

std::string duration(double seconds) {
  const auto s = static_cast<long>(seconds);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

int run_distill(const DistillFlags& f) {
  std::vector<std::string> texts;
  if (!f.prompts.empty()) {
    for (Prompt& p : read_prompts(f.prompts)) texts.push_back(std::move(p.text));
  }
  catch_interrupts(kEndsAtThird);
  const Model model = load_model(f.model);
  Progress progress;
  DistillListener listener;
  listener.go_on = [] { return !interrupted(); };
  listener.on_note = [&](std::string_view line) {
    progress.clear();
    note(line);
  };
  listener.on_progress = [&](std::size_t documents, std::size_t of, std::size_t tokens, double s) {
    progress.show(fmt::format("{} of {} answers kept, {} tokens, {:.0f} tok/s, {}", documents, of,
                              tokens, static_cast<double>(tokens) / std::max(s, 1e-9),
                              duration(s)));
  };
  const Distilled d = [&] {
    try {
      return distill(model, texts, f.out, f.options, listener);
    } catch (const UsageError& e) {
      std::error_code failed;
      if (!f.out.empty() || !std::filesystem::is_directory(answers_folder(model), failed)) throw;
      throw UsageError(
          fmt::format("{} (without --out answers go beside the model, where auto "
                      "finds them; auto+sam:FOLDER drafts from another folder)",
                      e.what()));
    }
  }();
  progress.clear();
  if (f.json) {
    write_json({{"folder", d.folder},
                {"documents", d.documents},
                {"answer_tokens", d.answer_tokens},
                {"looping", d.looping},
                {"dropped", d.dropped},
                {"added", d.added},
                {"added_tokens", d.added_tokens},
                {"seconds", d.seconds},
                {"interrupted", d.interrupted}});
  } else {
    write_out(fmt::format(
        "{}: {} answers of {} tokens, {} of them ({:.1f}%) end in a loop; {} new in {}\n",
        printable(d.folder), d.documents, d.answer_tokens, d.looping,
        100.0 * static_cast<double>(d.looping) /
            static_cast<double>(std::max<std::size_t>(d.documents, 1)),
        d.added, duration(d.seconds)));
    if (d.dropped > 0) {
      note(fmt::format("{} prompts have no answer: empty, too long, or not finished by the model",
                       d.dropped));
    }
    if (d.interrupted) note("interrupted: the same command resumes it");
  }
  return d.interrupted ? 130 : 0;
}

}  // namespace

void add_distill(Command& program) {
  auto f = std::make_shared<DistillFlags>();
  GenerateOptions& o = f->options.generate;
  o.batch_size = 32;
  Command& command = program.add_command(
      "distill", "Let the model answer prompts, many at once, as data to train a drafter on");
  bind_model(command, f->model);
  command.add("--prompts", f->prompts, "JSON lines, each with a \"prompt\"");
  command.add("--self-prompts", f->options.self_prompts,
              "Prompts that the model writes itself, after those of the file",
              {.least = 0, .most = 2147483648.0});
  command.add("--out", f->out, "Folder of the answers; resumed if it holds some",
              {.shows = "FOLDER",
               .standard = "MODEL.answers beside the model, where the drafter auto finds them"});
  command.add("--temp", o.sampling.temperature, "Of the answers, 0 = greedy",
              {.least = 0.0, .most = 1000.0});
  command.add("--top-k", o.sampling.top_k, "Keep the k likeliest tokens, 0 = all");
  command.add("--top-p", o.sampling.top_p, "Keep the likeliest tokens that make up p",
              {.least = 0.0, .most = 1.0});
  command.add("--self-temp", f->options.self_temperature, "Of the prompts that the model writes",
              {.least = 0.01, .most = 1000.0});
  command.add("-n,--max-tokens", o.max_tokens, "Tokens an answer at most",
              {.least = 1, .most = 1 << 20});
  command.add("--batch-size", o.batch_size, "Answers written at a time",
              {.least = 1, .most = 4096, .old = "--lanes"});
  command.add("--seed", o.seed, "Same seed, same answers");
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers-greedy
  forerun distill -m model.gguf --prompts prompts.jsonl --out answers-0.7 --temp 0.7
  forerun distill -m model.gguf --self-prompts 1000

The last one needs no data: from then on texts of that model are drafted from those answers too. A drafter
learns best from texts of its target. Ctrl-C keeps what is finished, and the same command resumes from there.
The folder holds token shards (safetensors: tokens, ends, prompts, ids), which forerun train reads.)");
  command.runs([f] { return run_distill(*f); });
}

}  // namespace forerun::cli
