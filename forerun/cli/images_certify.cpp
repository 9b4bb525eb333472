#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/provenance.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

struct ImagesCertifyFlags {
  RunFlags run;
  std::string out;
};

int profile(const ImagesCertifyFlags& f) {
  expect_path(f.run.model.path);
  if (!is_diffusion_model(f.run.model.path)) {
    throw UsageError(fmt::format("'{}' holds no diffusion model", f.run.model.path));
  }
  expect_apart({{"--out", f.out}}, inputs_of(f.run));
  AtomicFile file(f.out);
  const DiffusionModel model = load_diffusion(f.run);
  const ImageDrafter drafter = ImageDrafter::load(f.run.draft.drafter, model);
  Progress progress;
  ImageOptions options = image_options(f.run, model);
  options.pictures = false;
  const ImageRun r = forerun::generate_images(
      model, drafter, labels_of(f.run.images, model.classes()), options, watching(progress));
  progress.clear();
  if (r.interrupted) return 130;
  const std::vector<double> relaxation = relaxed_profile(r);
  nlohmann::json j = {{"format", kProfileFormat},
                      {"of", profile_settings(f.run, model)},
                      {"images", r.values.size()},
                      {"date", utc_date()},
                      {"relaxation", relaxation}};
  file.commit(j.dump(1) + "\n");
  write_out(fmt::format("{}: relaxation from {:.3f} at the first step to {:.3f} at the last\n",
                        printable(f.out), relaxation.front(), relaxation.back()));
  return 0;
}

}  // namespace

int certify_images(const RunFlags& f, bool json) {
  const DiffusionModel model = load_diffusion(f);
  const ImageDrafter drafter = ImageDrafter::load(f.draft.drafter, model);
  Progress progress;
  const ImageOptions options = image_options(f, model);
  const ImageCertificate c = forerun::certify_images(
      model, drafter, labels_of(f.images, model.classes()), options, watching(progress));
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
    write_out(fmt::format(
        "{} {}{} transitions, {} drafted: z = {:+.2f}, KS p = {:.3f}, energy p = {:.3f}\n"
        "drafts kept {}, by an exact rule {:.1f}: z = {:+.2f}\n"
        "outputs lean towards drafts by {:+.5f} sigma; this rule's are to, by {:+.5f}\n"
        "counterfactuals: {} of {} steps decided otherwise once their own noise changes\n",
        styled(stdout, ok ? Style::kGreen : Style::kRed, verdict),
        c.interrupted ? "(interrupted) " : "", c.report.outputs, c.report.drafted, c.report.z,
        c.report.ks_p, c.report.energy_p, c.kept, c.expected, c.expected_z, c.shift,
        c.predicted_shift, c.counterfactuals.violations, c.counterfactuals.places));
    if (!options.relaxation.empty()) write_out("the rule is INEXACT by design: it should fail\n");
  }
  if (c.interrupted) return 130;
  return c.passed() ? 0 : 1;
}

void add_profile(Command& program) {
  auto f = std::make_shared<ImagesCertifyFlags>();
  f->run.images.count = 64;
  f->run.draft.fixed = true;
  Command& command = program.add_command(
      "profile", "Measure how far --rule relax may go, step by step (diffusion models)");
  bind_model(command, f->run.model, Makes::kImages);
  bind_places(command, f->run.images);
  bind_images(command, f->run);
  bind_drafter(command, f->run.draft, Makes::kImages);
  bind_drafting(command, f->run.draft, Makes::kImages, "7");
  command.group(kOutputTitle);
  command.add("-o,--out", f->out, "File of the profile", {.required = true, .shows = "FILE"});
  command.footer(R"(Examples:
  forerun profile -m dit --drafter free:free --out relax.json
  forerun generate -m dit --drafter free:free --rule relax --profile relax.json --out grid.png)");
  command.runs([f, &command] {
    if (!command.given("--drafter")) throw UsageError("profile: name a --drafter, e.g. asd");
    settle(f->run, command, {.image = 7});
    if (command.given("--rule") && f->run.draft.rule != "maximal") {
      throw UsageError("profile: measured with --rule maximal");
    }
    return profile(*f);
  });
}

}  // namespace forerun::cli
