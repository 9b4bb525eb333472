#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/new_file.h"
#include "forerun/cli/provenance.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

struct Flags {
  ImageFlags images;
  std::string out;
  bool json = false;
};

int certify(const Flags& f) {
  const DiffusionModel model = load_diffusion(f.images);
  const ImageDrafter drafter = ImageDrafter::load(f.images.drafter, model);
  Progress progress;
  const ImageOptions options = resolve(f.images, model);
  const ImageCertificate c =
      certify_images(model, drafter, labels_of(f.images, model), options, watching(progress));
  progress.clear();
  if (f.json) {
    nlohmann::json j = to_json(c);
    j.update(settings(f.images, model));
    write_json(j);
  } else {
    const bool ok = c.passed();
    const char* verdict = ok ? "PASS" : c.report.drafted == 0 ? "NOTHING DRAFTED" : "FAIL";
    write_out(fmt::format(
        "{} {}{} transitions, {} drafted: z = {:+.2f}, KS p = {:.3f}, energy p = {:.3f}\n"
        "drafts kept {}, by an exact rule {:.1f}: z = {:+.2f}\n"
        "outputs lean towards drafts by {:+.5f} sigma; this rule's are to, by {:+.5f}\n",
        styled(stdout, ok ? Style::kGreen : Style::kRed, verdict),
        c.interrupted ? "(interrupted) " : "", c.report.outputs, c.report.drafted, c.report.z,
        c.report.ks_p, c.report.energy_p, c.kept, c.expected, c.expected_z, c.shift,
        c.predicted_shift));
    if (!options.relaxation.empty()) write_out("the rule is INEXACT by design: it should fail\n");
  }
  if (c.interrupted) return 130;
  return c.passed() ? 0 : 1;
}

int profile(const Flags& f) {
  const DiffusionModel model = load_diffusion(f.images);
  const ImageDrafter drafter = ImageDrafter::load(f.images.drafter, model);
  NewFile file(f.out);
  Progress progress;
  ImageOptions options = f.images.options;
  options.pictures = false;
  const ImageRun r =
      generate_images(model, drafter, labels_of(f.images, model), options, watching(progress));
  progress.clear();
  if (r.interrupted) return 130;
  const std::vector<double> relaxation = relaxed_profile(r);
  nlohmann::json j = {{"format", kProfileFormat},
                      {"of", profile_settings(f.images, model)},
                      {"images", r.values.size()},
                      {"date", utc_date()},
                      {"relaxation", relaxation}};
  file.commit(j.dump(1) + "\n");
  write_out(fmt::format("{}: relaxation from {:.3f} at the first step to {:.3f} at the last\n",
                        f.out, relaxation.front(), relaxation.back()));
  return 0;
}

}  // namespace

Action add_certify_images(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  f->images.count = 64;
  f->images.options.draft_length = 8;
  command = parent.add_subcommand(
      "certify", "Test on steps of sampling whether drafting changed the law of the images");
  bind(*command, f->images);
  bind_drafting(*command, f->images);
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(
      R"(Every step is scored again by plain passes of the model. Under an exact rule what is left of a step, over its
standard deviation, is independent standard normal; only its projection on the direction from the model's mean to the
draft's can see a biased rule, and z is its mean. Exit status 1 if the certificate fails.)");
  return [f] { return certify(*f); };
}

Action add_profile(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  f->images.count = 64;
  f->images.options.draft_length = 8;
  command = parent.add_subcommand(
      "profile", "Measure how loose --rule relax may be, step by step (diffusion models)");
  bind(*command, f->images);
  bind_drafting(*command, f->images);
  command->remove_option(command->get_option("--rule"));
  command->remove_option(command->get_option("--profile"));
  command->get_option("--drafter")->required();
  command->add_option("-o,--out", f->out, "File of the profile")->required();
  command->footer(R"(Examples:
  forerun profile -m dit --drafter free:free --out relax.json
  forerun generate -m dit --drafter free:free --rule relax --profile relax.json --out grid.png)");
  return [f] {
    if (!is_diffusion_model(f->images.model)) {
      throw UsageError(fmt::format("'{}' holds no diffusion model", f->images.model));
    }
    return profile(*f);
  };
}

}  // namespace forerun::cli
