#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/image_reference_impl.h"
#include "forerun/core/rng_key.h"
#include "forerun/evaluate.h"
#include "forerun/metrics/frechet.h"
#include "forerun/metrics/neighbours.h"
#include "forerun/metrics/resampling.h"
#include "forerun/text.h"
#include "forerun/train/classifier/augmented_images.h"

namespace forerun {
namespace {

constexpr std::uint64_t kFloorSeed = 0xf100f;

// What the classifier makes of images.
struct Seen {
  at::Tensor features, spatial;
  std::vector<bool> agrees;  // the likeliest class is the one asked for
  std::vector<std::int64_t> labels;
};

Seen look(const Classifier& classifier, const LabelledImages& images,
          std::span<const std::size_t> which) {
  constexpr std::size_t kBatch = 256;
  std::vector<at::Tensor> features, spatial;
  Seen out;
  for (std::size_t first = 0; first < which.size(); first += kBatch) {
    const auto some = which.subspan(first, std::min(kBatch, which.size() - first));
    const ClassifierOutput predicted = run_classifier(classifier, augmented_images(images, some));
    const at::Tensor labels = labels_of(images, some);
    const at::Tensor agrees = predicted.logits.argmax(1).eq(labels);
    for (std::size_t i = 0; i < some.size(); ++i) {
      out.agrees.push_back(agrees.const_data_ptr<bool>()[i]);
      out.labels.push_back(labels.const_data_ptr<std::int64_t>()[i]);
    }
    features.push_back(predicted.features);
    spatial.push_back(predicted.spatial);
  }
  out.features = at::cat(features);
  out.spatial = at::cat(spatial);
  return out;
}

std::vector<std::size_t> all_of(const LabelledImages& images) {
  std::vector<std::size_t> out(static_cast<std::size_t>(images.size()));
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

// As many training images of each class as `labels` has, or all there are; by chance.
std::vector<std::size_t> floor_images(const LabelledImages& training,
                                      std::span<const std::int64_t> labels, std::uint64_t seed) {
  std::map<std::int64_t, std::size_t> wanted;
  for (const std::int64_t label : labels) ++wanted[label];
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < training.labels.size(); ++i) {
    const RngKey key{.seed = seed, .request = static_cast<std::uint32_t>(i)};
    order.emplace_back(key.uniform(Purpose::kCertificate), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> out;
  for (const auto& [key, image] : order) {
    std::size_t& left = wanted[training.labels[image]];
    if (left == 0) continue;
    --left;
    out.push_back(image);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A figure of a set, and of sets drawn again.
struct Figured {
  double value = 0.0;
  std::vector<double> replicates;

  Estimate estimate() const { return {value, deviation(replicates)}; }
  Estimate less(const Figured& other) const {
    std::vector<double> differences;
    for (std::size_t i = 0; i < replicates.size(); ++i) {
      differences.push_back(replicates[i] - other.replicates[i]);
    }
    return {value - other.value, deviation(differences)};
  }
};

struct SetFigures {
  Figured frechet, spatial_frechet, precision, recall, agreement;
  std::vector<Figured> by_class;
};

template <class F>
ImageScores for_each_figure(F&& f) {
  return {f(&SetFigures::frechet), f(&SetFigures::spatial_frechet), f(&SetFigures::precision),
          f(&SetFigures::recall),  f(&SetFigures::agreement),       {}};
}

ImageScores scores_of(const SetFigures& s) {
  ImageScores out =
      for_each_figure([&](Figured SetFigures::*figure) { return (s.*figure).estimate(); });
  for (const Figured& f : s.by_class) out.agreement_by_class.push_back(f.estimate());
  return out;
}

ImageScores difference_of(const SetFigures& a, const SetFigures& b) {
  ImageScores out =
      for_each_figure([&](Figured SetFigures::*figure) { return (a.*figure).less(b.*figure); });
  for (std::size_t c = 0; c < a.by_class.size(); ++c) {
    out.agreement_by_class.push_back(a.by_class[c].less(b.by_class[c]));
  }
  return out;
}

// The test images, ready to be compared with.
class Comparison {
 public:
  Comparison(const Seen& test, std::int64_t classes, const EvaluationOptions& options)
      : options_(options),
        classes_(classes),
        frechet_(test.features),
        spatial_(test.spatial),
        balls_(test.features) {}

  SetFigures figures(const Seen& set, std::uint64_t seed) const {
    const Resampling resampling(set.labels, seed);
    SetFigures out;
    out.frechet = distance(frechet_, set.features, resampling);
    out.spatial_frechet = distance(spatial_, set.spatial, resampling);
    const NearestBalls::Result near = balls_.compare(set.features, resampling, options_.replicates);
    out.precision = share(near.precise, resampling);
    out.recall = {share_of(near.recalled), near.recalls_of_halves};
    out.agreement = share(set.agrees, resampling);
    for (std::int64_t c = 0; c < classes_; ++c) {
      std::vector<bool> agrees;
      for (std::size_t i = 0; i < set.labels.size(); ++i) {
        if (set.labels[i] == c) agrees.push_back(set.agrees[i]);
      }
      const std::vector<std::int64_t> one(agrees.size(), c);
      out.by_class.push_back(agrees.empty() ? Figured{0.0, std::vector<double>(options_.replicates)}
                                            : share(agrees, Resampling(one, seed)));
    }
    return out;
  }

 private:
  Figured distance(const FrechetReference& reference, const at::Tensor& features,
                   const Resampling& resampling) const {
    const FrechetReference::Prepared prepared = reference.prepare(features);
    Figured out{reference.distance(features), {}};
    for (std::uint32_t r = 0; r < options_.replicates; ++r) {
      out.replicates.push_back(reference.distance(prepared, resampling.bootstrap(r)));
    }
    return out;
  }
  Figured share(const std::vector<bool>& hit, const Resampling& resampling) const {
    return {share_of(hit), shares_of(hit, resampling, options_.replicates)};
  }

  EvaluationOptions options_;
  std::int64_t classes_;
  FrechetReference frechet_, spatial_;
  NearestBalls balls_;
};

// One set as the classifier reads it: planes of colours, one after the other.
LabelledImages planes_of(const ImageSet& set, const ImageReference& reference) {
  const std::int64_t side = reference.side(), channels = reference.channels();
  LabelledImages out{.width = side, .height = side, .channels = channels};
  for (const Image& image : set.images) {
    if (image.width != side || image.height != side || image.channels != channels) {
      throw UsageError(
          fmt::format("an image of {} x {} with {} channels, the classifier reads {} x {} with {}",
                      image.width, image.height, image.channels, side, side, channels));
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < side * side; ++p) {
        out.pixels.push_back(image.pixels[static_cast<std::size_t>(p * channels + c)]);
      }
    }
  }
  for (const std::int64_t label : set.labels) {
    if (label < 0 || label >= static_cast<std::int64_t>(reference.classes().size())) {
      throw UsageError(fmt::format("class {}: the classifier has 0 to {}", label,
                                   reference.classes().size() - 1));
    }
    out.labels.push_back(static_cast<std::int32_t>(label));
  }
  return out;
}

void check(const ImageReference& reference, std::span<const ImageSet> sets,
           const EvaluationOptions& options) {
  constexpr std::size_t kLeast = NearestBalls::kNeighbours + 1;
  constexpr std::uint32_t kMostReplicates = 10000;
  if (sets.empty()) throw UsageError("there is no set of images to evaluate");
  if (options.replicates < 2 || options.replicates > kMostReplicates) {
    throw UsageError(fmt::format("replicates: 2 to {}", kMostReplicates));
  }
  if (static_cast<std::size_t>(reference.images()) < kLeast) {
    throw UsageError(
        fmt::format("{} test images: {} or more are needed", reference.images(), kLeast));
  }
  for (const ImageSet& set : sets) {
    if (set.labels.size() != set.images.size()) {
      throw UsageError(
          fmt::format("{} classes for {} images", set.labels.size(), set.images.size()));
    }
    if (set.images.size() < kLeast) {
      throw UsageError(
          fmt::format("{} images: {} or more are needed for a covariance and balls of "
                      "{} neighbours",
                      set.images.size(), kLeast, NearestBalls::kNeighbours));
    }
    if (set.images.size() != sets.front().images.size()) {
      throw UsageError(
          fmt::format("sets of {} and {} images: distances fall as sets grow, so "
                      "compare sets of one size",
                      sets.front().images.size(), set.images.size()));
    }
  }
}

}  // namespace

ImageEvaluation evaluate_images(const ImageReference& reference, std::span<const ImageSet> sets,
                                const EvaluationOptions& options,
                                const std::function<void(std::string_view)>& on_part) {
  check(reference, sets, options);
  const c10::NoGradGuard no_autograd;
  const auto tell = [&](const std::string& what) {
    if (on_part) on_part(what);
  };
  const Classifier& classifier = impl_of(reference).classifier;
  const LabelledImages &training = impl_of(reference).training, &test = impl_of(reference).test;
  // Refused before anything is computed.
  std::vector<LabelledImages> planes;
  for (const ImageSet& set : sets) planes.push_back(planes_of(set, reference));

  tell("test images");
  const Seen tested = look(classifier, test, all_of(test));
  const auto classes = static_cast<std::int64_t>(test.classes.size());
  const Comparison comparison(tested, classes, options);
  ImageEvaluation out;
  out.images = static_cast<std::int64_t>(sets.front().images.size());
  out.test_agreement = share_of(tested.agrees);

  tell("training images (the floor)");
  const auto chosen = floor_images(training, sets.front().labels, options.seed ^ kFloorSeed);
  out.floor_images = static_cast<std::int64_t>(chosen.size());
  if (out.floor_images > NearestBalls::kNeighbours) {
    out.floor = scores_of(
        comparison.figures(look(classifier, training, chosen), options.seed ^ kFloorSeed));
  }

  std::optional<SetFigures> first;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    tell(fmt::format("set {} of {}", i + 1, sets.size()));
    const Seen seen = look(classifier, planes[i], all_of(planes[i]));
    // Unlike sets are drawn again independently.
    const bool alike = sets[i].labels == sets.front().labels;
    SetFigures figures = comparison.figures(seen, alike ? options.seed : options.seed + i);
    out.sets.push_back(scores_of(figures));
    if (first) {
      out.differences.push_back(difference_of(figures, *first));
    } else {
      first = std::move(figures);
    }
  }
  return out;
}

}  // namespace forerun
