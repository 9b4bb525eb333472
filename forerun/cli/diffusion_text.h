#pragma once

#include <string>

#include "forerun/cli/images.h"

namespace forerun::cli {

/// What a diffusion language model alone has.
struct DiffusionTextFlags {
  std::string unmasking = "entropy";
  std::int64_t block = 0;
};
void bind_diffusion_text(Command& command, DiffusionTextFlags& flags);

/// A prompt as it was given.
struct GivenPrompt {
  std::string text, system;
  bool raw = false;
  std::string file;  // where it was read, if it was
};

/// Writes a text with a diffusion language model.
/// @return  the exit code
/// @throws UsageError  a flag for models that write token by token
int generate_diffusion_text(const RunFlags& run, const DiffusionTextFlags& flags,
                            const GivenPrompt& prompt, const std::string& trace, bool json,
                            const Command& command);

}  // namespace forerun::cli
