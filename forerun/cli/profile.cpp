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

struct ProfileFlags {
  RunFlags run;
  std::string out;
};

int profile(const ProfileFlags& f) {
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
  const ImageRun r =
      forerun::generate_images(model, drafter, labels_of(f.run.images, model.classes()), options,
                               watching(progress, steps_name(model)));
  progress.clear();
  if (r.interrupted) return 130;
  if (r.statistics.drafted == 0) {
    throw UsageError(
        "profile: nothing was drafted, so nothing is measured; name a drafter with --drafter, and "
        "a --max-draft of 1 or more");
  }
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

void add_profile(Command& program) {
  auto f = std::make_shared<ProfileFlags>();
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
  command.footer(
      R"(Of Diffusion Transformers alone, with --drafter, and measured under --rule maximal.

Examples:
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
