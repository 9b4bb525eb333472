#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/cli/images.h"
#include "forerun/token_image.h"

namespace forerun::cli {

/// @throws UsageError  a precision other than f32
TokenImageModel load_token_images(const RunFlags& flags);
/// The options with what the drafting flags say.
/// @throws UsageError  a rule for other models
TokenImageOptions token_options(const RunFlags& flags);

/// What the law of a token depends on besides model and class, as JSON fields.
nlohmann::json token_settings(const TokenImageOptions& options);
/// The settings of a run, as JSON fields.
nlohmann::json settings(const RunFlags& flags, const TokenImageModel& model);
nlohmann::json to_json(const TokenImageRun& run);
/// "64 tokens in 24.1 target passes an image: 2.66 tokens a pass, 0.71 of the tested drafts kept"
std::string summary(const TokenImageRun& run, const TokenImageModel& model);

/// The verbs where -m names an image-token model. @return  the exit code
int generate_token_images(const RunFlags& flags, const ImageFiles& files, bool json,
                          const Command& command);
int certify_token_images(const RunFlags& flags, bool json);
int bench_token_images(const RunFlags& flags, const ImageBench& bench, int repeats, bool json);

}  // namespace forerun::cli
