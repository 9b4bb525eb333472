#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
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
  /// How far a set's run came: outputs, and passes of the target for one image each.
  struct Ran {
    std::uint64_t outputs = 0, passes = 0;
    bool interrupted = false;
  };
  struct Set {
    std::string name;
    bool exact = true;
    nlohmann::json described;  ///< all that its images depend on
    /// Samples images of these classes, the first of which has this place.
    std::function<Ran(std::uint32_t first, std::span<const std::int64_t> labels,
                      const ImageListener& listener)>
        sample;
  };
  std::vector<Set> sets;
  std::size_t count = 0;       ///< images of each, place i of class i modulo classes
  std::int64_t classes = 0;    ///< of the model
  std::int64_t steps = 0;      ///< of an image, for the progress
  std::size_t batch_size = 1;  ///< images at a time
  std::string keep;            ///< folder that holds every finished image; empty: none are written
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
Sampled sample_sets(const ImageReference& reference, const SamplePlan& plan);

/// What an evaluation is asked to sample.
struct EvaluatedRun {
  RunFlags run;
  std::string classifier, against, keep;
};
/// The plan for the model at --model, of either kind, and the settings as JSON fields.
struct PlannedRun {
  SamplePlan plan;
  nlohmann::json settings;
};
/// @throws UsageError  a model that the classifier cannot judge, two equal sets
PlannedRun plan_samples(const EvaluatedRun& run, const ImageReference& reference);

/// An evaluation as a table for people, with what it means; as JSON fields.
std::string evaluation_table(const ImageEvaluation& evaluation,
                             const std::vector<std::string>& names,
                             const ImageReference& reference);
nlohmann::json to_json(const ImageEvaluation& evaluation, const std::vector<std::string>& names,
                       const ImageReference& reference);

}  // namespace forerun::cli
