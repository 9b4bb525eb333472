#pragma once

#include <string>
#include <vector>

#include "forerun/cli/images.h"

namespace forerun::cli {

/// What `bench` compares of texts.
struct TextBench {
  RunFlags run;
  std::vector<std::string> drafters;
  std::string prompts, report;
  int repeats = 1;
  bool raw = false, json = false, verbose = false;
};
/// @return  the exit code
int bench_texts(const TextBench& flags, const Command& command);

}  // namespace forerun::cli
