#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "forerun/methods/diffuspec/diffuspec.h"

namespace forerun {

/// `PATH[:OPTION=VALUE...]`, the argument of the drafter diffuspec.
struct DiffuSpecArgument {
  std::string folder;
  DiffuSpecOptions options;      ///< the weight apart
  std::optional<double> weight;  ///< PathSearchOptions::marginal, if it is given
  std::filesystem::path ngram;   ///< an ARPA file; empty: trigrams of the text itself
};

/// @throws UsageError  an option without a value, with one that it does not take, or named twice
DiffuSpecArgument parse_diffuspec(const std::string& argument);

}  // namespace forerun
