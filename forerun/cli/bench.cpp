#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "forerun/cli/text_bench.h"

namespace forerun::cli {
namespace {

struct BenchFlags : TextBench {
  ImageBench images;
};

int run_bench(BenchFlags& f, const Command& command) {
  std::erase(f.drafters, "");
  if (command.given("--drafters") && f.drafters.empty()) {
    throw UsageError("bench: --drafters is empty; try none,lookup");
  }
  const Makes kind = settle(f.run, command, {});
  if (f.drafters.empty()) {
    f.drafters = kind == Makes::kImages        ? std::vector<std::string>{"frozen", "asd"}
                 : kind == Makes::kTokenImages ? std::vector<std::string>{"self"}
                                               : std::vector<std::string>{"lookup", "auto"};
  }
  if (kind != Makes::kTexts) {
    f.images.drafters = f.drafters;
    f.images.repeats = f.repeats;
    if (kind == Makes::kTokenImages && !command.given("--drafts")) {
      f.images.drafts = {"2", "4", "8", "auto"};
    }
    // One length that is named is the one that is measured.
    for (const char* one : {"--max-draft", "--fixed-draft", "--draft-length"}) {
      if (command.given(one)) f.images.drafts.clear();
    }
    return bench_images(f.run, f.images, f.json);
  }
  if (!command.given("--prompts")) {
    throw UsageError(
        fmt::format("{} writes texts: give it prompts with --prompts FILE", f.run.model.path));
  }
  return bench_texts(f, command);
}

void bind_image_bench(Command& command, BenchFlags& f) {
  bind_places(command, f.run.images);
  command.group(kImageTitle);
  command.add("--drafts", f.images.drafts,
              "Drafted steps a round, always that many, one line of the table each; auto: as many "
              "as pay. With --max-draft that one alone",
              {.commas = true, .standard = "1,3,7,15,31; token by token 2,4,8,auto"});
  command.add_old("--draft-lengths", [&f](const std::string& list) {
    f.images.drafts.clear();
    std::istringstream lengths(list);
    for (std::string one; std::getline(lengths, one, ',');) {
      f.images.drafts.push_back(one == "auto" ? one : std::to_string(drafts_of_states(one)));
    }
    note("forerun: --draft-lengths is a former name that counts one more than --drafts");
  });
  command.add("--no-plain", f.images.plain, "Without plain sampling first; then there is no speed");
  bind_images(command, f.run);
}

}  // namespace

void add_bench(Command& program) {
  auto f = std::make_shared<BenchFlags>();
  f->run.text.max_tokens = 128;
  Command& command = program.add_command(
      "bench", "Compare drafters with plain decoding of texts, or plain sampling of images");
  bind_model(command, f->run.model, Makes::kBoth);
  command.group(kTextTitle);
  command.add("--prompts", f->prompts,
              "JSON lines, each with a \"prompt\" and perhaps a \"category\"", {.shows = "FILE"});
  command.add("--raw", f->raw, "Prompts as they are, without the chat format");
  bind_text(command, f->run.text, f->run.draft);
  command.group(kTextTitle);
  command.add("-v,--verbose", f->verbose, "Explain how far each drafter went, and why");
  command.add("--report", f->report, "Write the results with charts to this HTML file",
              {.shows = "FILE"});
  bind_image_bench(command, *f);
  command.group(kDraftTitle);
  command.add(
      "--drafters", f->drafters,
      fmt::format("Texts: {}. Images: asd, frozen, self, free:FOLDER; token by token: cspd:FOLDER, "
                  "self",
                  text_drafters()),
      {.commas = true,
       .standard = "none,lookup,auto for texts, frozen,asd for images, self token by token"});
  bind_drafting(command, f->run.draft, Makes::kBoth, "15 for texts; images: see --drafts");
  command.add("--repeats", f->repeats,
              "Times every text, or every set of images, is made; the median counts",
              {.least = 1, .most = 1000});
  command.group(kOutputTitle);
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun bench -m model.gguf --drafters none,lookup --prompts prompts.jsonl -n 128 --temp 0
  forerun bench -m model.gguf --prompts prompts.jsonl --temp 0.8 --rule shared-noise --json
  forerun bench -m model.gguf --prompts prompts.jsonl --temp 0 --report bench.html
  forerun bench -m dit --drafters frozen,asd,free:free --drafts 3,7 --count 16
  forerun bench -m mar --drafters none,cspd:draft,self --drafts 4,auto --count 8 --batch-size 1

Texts: the drafters take turns on every text, eight tokens at a time, so that they share whatever
the machine does meanwhile. With "none,none,lookup" plain decoding runs twice: how far apart the two
are is the noise of this machine, and no smaller difference means anything. Greedy and shared-noise
texts are compared token by token; a difference that is no tie fails (exit status 1).

Images take turns too, 16 steps or tokens at a time. "none" among the drafters is plain sampling once
more. Columns: acceptance, share of the examined drafts that were kept; speed, wall clock of plain
sampling over this; worst, the same of the slowest image.

More columns for Diffusion Transformers: efficiency, transitions for each pass of the model that had
to wait for the one before (1 is plain sampling); states, how many the model scored for each
transition (what a machine without idle units pays); cost, time of a drafted state over that of a
scored one.

For images made token by token: tau, tokens for each pass of the model; remerged, share of the kept
drafts whose chain had parted from the model's; rows and calls, inner steps that the model's head
computed for a token, and how many of its calls waited for each other.)");
  command.runs([f, &command] { return run_bench(*f, command); });
}

}  // namespace forerun::cli
