#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/token_image.h"

namespace forerun::cli {

/// Flags of images that are made token by token.
struct TokenImageFlags {
  std::string variance = "calibrated", final_step = "truncate", guidance_schedule = "constant";
  TokenImageOptions options;
};
/// Flags of images alone.
struct ImageFlags {
  std::string dialect = "reference", profile;
  std::vector<std::int64_t> classes;
  std::size_t count = 16;
  ImageOptions options;
  TokenImageFlags tokens;
};
/// Flags of a command for texts and images.
struct RunFlags {
  ModelFlags model;
  DraftFlags draft;
  GenerateOptions text;
  ImageFlags images;
};
void bind_images(Command& command, RunFlags& flags);
/// Which images: --class and --count.
void bind_places(Command& command, ImageFlags& flags);

/// Drafts of the former draft length, which counted the state that the target draws itself, too.
/// @throws UsageError  not 1 to 1024
std::uint32_t drafts_of_states(const std::string& states);

/// Drafted tokens of a text and steps of an image a round, by default.
struct DefaultDrafts {
  std::uint32_t text = 15, image = 63, token = 8;
};
/// What kind the model at --model is of, with the kind's own drafter, rule, draft length and steps
/// where none were asked for.
/// @throws UsageError   no such path; a flag for the other kind was given
/// @throws FormatError  it is no model
Makes settle(RunFlags& flags, const Command& command, const DefaultDrafts& drafts);

DiffusionModel load_diffusion(const RunFlags& flags);
TokenImageModel load_token_images(const RunFlags& flags);
/// Calls `use` with the model of images at --model, of whichever kind.
template <class Use>
auto with_image_model(const RunFlags& flags, const Use& use) {
  if (is_token_image_model(flags.model.path)) return use(load_token_images(flags));
  return use(load_diffusion(flags));
}
/// The classes of the images: those asked for in turn, or all.
std::vector<std::int64_t> labels_of(const ImageFlags& flags, std::int64_t classes);
/// The options with what the drafting flags say and the profile of a relaxed rule.
/// @throws UsageError  a rule for other models; no profile, or one made for other settings
ImageOptions image_options(const RunFlags& flags, const DiffusionModel& model);
TokenImageOptions image_options(const RunFlags& flags, const TokenImageModel& model);
/// The files that a run reads, for `expect_apart`.
std::vector<std::string> inputs_of(const RunFlags& flags);

/// The settings of a run, the same fields for texts and images.
nlohmann::json run_json(const RunFlags& flags, const ChosenPrecision& precision);

/// What the law of a step, or of a token, depends on besides model and class, as JSON fields.
nlohmann::json step_settings(const ImageOptions& options, const DiffusionModel& model);
nlohmann::json step_settings(const TokenImageOptions& options, const TokenImageModel& model);

/// What a profile's relaxation belongs to.
nlohmann::json profile_settings(const RunFlags& flags, const DiffusionModel& model);
inline constexpr const char* kProfileFormat = "forerun relax profile 2";

/// What an image is made in.
inline const char* steps_name(const DiffusionModel&) { return "steps"; }
inline const char* steps_name(const TokenImageModel&) { return "tokens"; }
/// A bar over the steps of all images, drafts kept and rejected; stops at Ctrl-C.
ImageListener watching(Progress& progress, const char* steps);

/// The settings of a run, as JSON fields; a run.
nlohmann::json settings(const RunFlags& flags, const DiffusionModel& model);
nlohmann::json settings(const RunFlags& flags, const TokenImageModel& model);
nlohmann::json to_json(const ImageRun& run, const DiffusionModel& model);
nlohmann::json to_json(const ImageRun& run, const TokenImageModel& model);
/// "1000 steps in 231.4 target calls an image: parallel efficiency 4.32"
std::string summary(const ImageRun& run, const DiffusionModel& model);
/// "64 tokens in 24.1 target passes an image: 2.66 tokens a pass, 0.71 of the tested drafts kept"
std::string summary(const ImageRun& run, const TokenImageModel& model);

/// What `generate` writes of images.
struct ImageFiles {
  std::string out, trace;
};
/// The verbs where -m names a model of images. @return  the exit code
int generate_images(const RunFlags& flags, const ImageFiles& files, bool json,
                    const Command& command);

/// What `bench` compares of images.
struct ImageBench {
  std::vector<std::string> drafters;
  std::vector<std::string> drafts = {"1", "3", "7", "15", "31"};  ///< a round, or "auto"
  bool plain = true;
  int repeats = 1;
};
int bench_images(const RunFlags& flags, const ImageBench& bench, bool json);

}  // namespace forerun::cli
