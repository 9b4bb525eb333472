#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "forerun/cli/images.h"
#include "forerun/evaluate.h"
#include "forerun/image.h"

namespace forerun::cli {

/// A set of images under its name, in the order of their places.
struct NamedSet {
  std::string name;  ///< "asd", "plain"; the name of a folder
  ImageSet set;
};

/// What is sampled for an evaluation.
struct SamplePlan {
  struct Set {
    std::string name, drafter, rule;
    ImageOptions options;
  };
  std::vector<Set> sets;
  std::size_t count = 0;  ///< images of each, place i of class i modulo classes
  std::string keep;       ///< folder that holds every finished image; empty: none are written
};

struct Sampled {
  std::vector<NamedSet> sets;        ///< of the same places, those that all sets have
  std::size_t found = 0, made = 0;   ///< images over all sets: in the folder, sampled
  std::vector<double> efficiencies;  ///< by set, of what was sampled; 0: nothing was
  double seconds = 0.0;
  bool interrupted = false;
};

/// Samples what the folder does not hold yet; the sets take turns, so that they are equally far
/// when it is stopped.
/// @throws UsageError          the folder holds images of other settings
/// @throws std::runtime_error  it cannot be written
Sampled sample_sets(const DiffusionModel& model, const ImageReference& reference,
                    const SamplePlan& plan);

/// An evaluation as a table for people, with what it means; as JSON fields.
std::string evaluation_table(const ImageEvaluation& evaluation,
                             const std::vector<std::string>& names,
                             const ImageReference& reference);
nlohmann::json to_json(const ImageEvaluation& evaluation, const std::vector<std::string>& names,
                       const ImageReference& reference);

}  // namespace forerun::cli
