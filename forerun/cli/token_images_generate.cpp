#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/explain.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/report/token_trace.h"
#include "forerun/cli/token_images.h"

namespace forerun::cli {
namespace {

TokenTracePage page_of(const TokenImageRun& r, const TokenImageOptions& o, const DraftFlags& f,
                       std::int64_t label, const std::string& command) {
  using Fate = TokenImageTrace::Fate;
  TokenTracePage page;
  page.version = FORERUN_VERSION;
  page.command = command;
  page.side = r.trace.side;
  std::uint64_t drafted = 0, kept = 0;
  for (const TokenImageTrace::Token& t : r.trace.tokens) {
    const char fate = t.fate == Fate::kKept       ? 'k'
                      : t.fate == Fate::kRemerged ? 'm'
                      : t.fate == Fate::kRejected ? 'r'
                                                  : 't';
    page.tokens.push_back({.round = t.round,
                           .place = t.place,
                           .fate = fate,
                           .chain = t.chain,
                           .draft = t.draft,
                           .together = t.together});
  }
  for (const TokenImageTrace::Round& t : r.trace.rounds) {
    page.rounds.push_back(
        {.first = t.first, .drafted = t.drafted, .kept = t.kept, .emitted = t.emitted});
    drafted += t.drafted;
    kept += t.kept;
  }
  for (const TokenImageTrace::Partial& s : r.trace.images) {
    page.images.push_back({.tokens = s.tokens, .png = png_grid(std::span(&s.image, 1), 1)});
  }
  page.title = fmt::format("An image of class {}: {} tokens in {} passes", label,
                           r.trace.tokens.size(), r.trace.rounds.size());
  page.facts = {
      {"drafter", f.drafter},
      {"rule", f.rule + (r.exact ? " (exact)" : " (INEXACT)")},
      {"drafts kept", fmt::format("{} of {}", kept, drafted)},
      {"guidance", fmt::format("{}", o.guidance)},
      {"steps of a token", fmt::format("{}", o.steps)},
      {"drafts a round", fmt::format("{}{}", o.fixed_draft ? "" : "at most ", o.max_draft)},
      {"seed", fmt::format("{}", o.seed)}};
  return page;
}

void report(const TokenImageRun& r, const TokenImageModel& model, const RunFlags& f,
            const TokenImageOptions& options, const std::string& out) {
  write_out(fmt::format("{}: {} images in {:.1f} s\n", printable(out), r.images.size(), r.seconds));
  const std::string rule = r.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT");
  note(styled(stderr, Style::kDim,
              fmt::format("{}, drafter {}, rule {} (", summary(r, model),
                          printable(f.draft.drafter), f.draft.rule)) +
       rule +
       styled(stderr, Style::kDim,
              fmt::format("), final step {}, seed {}", f.images.tokens.final_step, options.seed)));
  if (r.statistics.drafted > 0 && !options.fixed_draft) {
    note(styled(stderr, Style::kDim,
                "drafted as far as paid; with --fixed-draft the seed makes the same images again"));
  }
}

}  // namespace

int generate_token_images(const RunFlags& f, const ImageFiles& files, bool json,
                          const Command& command) {
  if (!command.given("--out")) {
    throw UsageError(
        fmt::format("{} makes images: name their PNG file with --out FILE", f.model.path));
  }
  std::vector<Output> outputs = {{"--out", files.out}};
  if (command.given("--trace")) outputs.push_back({"--trace", files.trace});
  expect_apart(outputs, inputs_of(f));
  TokenImageOptions options = token_options(f);
  AtomicFile file(files.out);
  std::optional<AtomicFile> trace;
  if (outputs.size() > 1) trace.emplace(files.trace);
  const TokenImageModel model = load_token_images(f);
  const TokenImageDrafter drafter = TokenImageDrafter::load(f.draft.drafter, model);
  const auto labels = labels_of(f.images, model.classes());
  options.trace = trace.has_value();
  Progress progress;
  const TokenImageRun r =
      forerun::generate_token_images(model, drafter, labels, options, watching(progress, "tokens"));
  progress.clear();
  if (r.images.empty()) {
    note("forerun: interrupted before the first image was finished; nothing is written");
    return 130;
  }
  const auto columns =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(r.images.size()))));
  file.commit(png_grid(r.images, columns));
  if (trace) {
    trace->commit(render_token_trace(page_of(r, options, f.draft, labels.front(), command.line())));
  }
  if (json) {
    nlohmann::json j = to_json(r);
    j.update(settings(f, model));
    j["out"] = files.out;
    write_json(j);
  } else {
    report(r, model, f, options, files.out);
  }
  return r.interrupted ? 130 : 0;
}

int certify_token_images(const RunFlags& f, bool json) {
  const TokenImageOptions options = token_options(f);
  const TokenImageModel model = load_token_images(f);
  const TokenImageDrafter drafter = TokenImageDrafter::load(f.draft.drafter, model);
  Progress progress;
  const ImageCertificate c = forerun::certify_token_images(
      model, drafter, labels_of(f.images, model.classes()), options, watching(progress, "tokens"));
  progress.clear();
  if (json) {
    nlohmann::json j = to_json(c);
    j.update(settings(f, model));
    write_json(j);
  } else {
    const bool ok = c.passed();
    const char* verdict = ok                      ? "PASS"
                          : c.report.outputs == 0 ? "NOTHING JUDGED"
                          : c.report.drafted == 0 ? "NOTHING DRAFTED"
                                                  : "FAIL";
    write_out(
        fmt::format("{} {}{} inner steps, {} coupled: z = {:+.2f}, KS p = {:.3g}, energy p = "
                    "{:.3g}\n",
                    styled(stdout, ok ? Style::kGreen : Style::kRed, verdict),
                    c.interrupted ? "(interrupted) " : "", c.report.outputs, c.report.drafted,
                    c.report.z, c.report.ks_p, c.report.energy_p));
    if (options.rule == Rule::kStepwise) {
      write_out(fmt::format(
          "inner steps that ended on the draft's state {}, by an exact rule {:.1f}: z = {:+.2f}\n",
          c.kept, c.expected, c.expected_z));
    }
    write_out(fmt::format("coupled steps lean towards drafts by {:+.5f} sigma\n", c.shift));
    if (is_exact(options.rule)) {
      write_out(fmt::format(
          "counterfactuals: {} of {} inner steps decided otherwise once their own noise changes\n",
          c.counterfactuals.violations, c.counterfactuals.places));
    } else {
      write_out("the rule is INEXACT by design: it should fail\n");
    }
  }
  if (c.interrupted) return 130;
  return c.passed() ? 0 : 1;
}

}  // namespace forerun::cli
