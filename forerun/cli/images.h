#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/image.h"

namespace forerun::cli {

/// Flags that every command on a diffusion model has.
struct ImageFlags {
  std::string model, dialect = "reference", precision = "auto", drafter = "none", rule = "maximal",
                     profile;
  std::vector<std::int64_t> classes;
  std::size_t count = 16;
  int threads = 0;
  ImageOptions options;
};
void bind(CLI::App& app, ImageFlags& flags);
void bind_drafting(CLI::App& app, ImageFlags& flags);

DiffusionModel load_diffusion(const ImageFlags& flags);
/// The classes of the images: those asked for in turn, or all.
std::vector<std::int64_t> labels_of(const ImageFlags& flags, const DiffusionModel& model);
/// The options with the profile of a relaxed rule.
/// @throws UsageError  no profile, or one made for other settings
ImageOptions resolve(const ImageFlags& flags, const DiffusionModel& model);

/// What the law of a step depends on besides model and class, as JSON fields.
nlohmann::json step_settings(const ImageOptions& options, const DiffusionModel& model);

/// What a profile's relaxation belongs to.
nlohmann::json profile_settings(const ImageFlags& flags, const DiffusionModel& model);
inline constexpr const char* kProfileFormat = "forerun relax profile 2";

/// A bar over the steps of all images, drafts kept and rejected; stops at Ctrl-C.
ImageListener watching(Progress& progress);

/// Reads "auto" as 0.
CLI::Transformer auto_length();
/// The other way: "auto", or the number.
std::string length_name(std::size_t draft_length);
nlohmann::json length_json(std::size_t draft_length);

/// What a run was asked for, as JSON fields.
nlohmann::json settings(const ImageFlags& flags, const DiffusionModel& model);
nlohmann::json to_json(const ImageRun& run);
nlohmann::json to_json(const ImageCertificate& certificate);
/// "1000 steps in 231.4 target calls an image: parallel efficiency 4.32"
std::string summary(const ImageRun& run);

/// The same verbs as for texts, where -m names a diffusion model.
Action add_generate_images(CLI::App& parent, CLI::App*& command);
Action add_bench_images(CLI::App& parent, CLI::App*& command);
Action add_certify_images(CLI::App& parent, CLI::App*& command);
/// Only for diffusion models.
Action add_profile(CLI::App& parent, CLI::App*& command);
Action add_evaluate(CLI::App& parent, CLI::App*& command);

/// True if the arguments' -m or --model names a diffusion model, or nothing that can be read and
/// another argument is for images alone.
bool asks_for_images(int argc, const char* const* argv);

}  // namespace forerun::cli
