#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/image.h"
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
/// The classes of the images: those asked for in turn, or all.
std::vector<std::int64_t> labels_of(const ImageFlags& flags, std::int64_t classes);
/// The options with what the drafting flags say and the profile of a relaxed rule.
/// @throws UsageError  a rule for texts; no profile, or one made for other settings
ImageOptions image_options(const RunFlags& flags, const DiffusionModel& model);
/// The files that a run reads, for `expect_apart`.
std::vector<std::string> inputs_of(const RunFlags& flags);

/// The settings of a run, the same fields for texts and images.
nlohmann::json run_json(const RunFlags& flags, const ChosenPrecision& precision);

/// What the law of a step depends on besides model and class, as JSON fields.
nlohmann::json step_settings(const ImageOptions& options, const DiffusionModel& model);

/// What a profile's relaxation belongs to.
nlohmann::json profile_settings(const RunFlags& flags, const DiffusionModel& model);
inline constexpr const char* kProfileFormat = "forerun relax profile 2";

/// A bar over the steps of all images, drafts kept and rejected; stops at Ctrl-C.
/// @param steps  what they are called
ImageListener watching(Progress& progress, const char* steps = "steps");

/// The settings of a run, as JSON fields.
nlohmann::json settings(const RunFlags& flags, const DiffusionModel& model);
nlohmann::json to_json(const ImageRun& run);
nlohmann::json to_json(const ImageCertificate& certificate);
/// "1000 steps in 231.4 target calls an image: parallel efficiency 4.32"
std::string summary(const ImageRun& run);

/// What `generate` writes of images.
struct ImageFiles {
  std::string out, trace;
};
/// The verbs where -m names a Diffusion Transformer. @return  the exit code
int generate_images(const RunFlags& flags, const ImageFiles& files, bool json,
                    const Command& command);
int certify_images(const RunFlags& flags, bool json);

/// What `bench` compares of images.
struct ImageBench {
  std::vector<std::string> drafters;
  std::vector<std::string> drafts = {"1", "3", "7", "15", "31"};  ///< a round, or "auto"
  bool plain = true;
};
int bench_images(const RunFlags& flags, const ImageBench& bench, bool json);

}  // namespace forerun::cli
