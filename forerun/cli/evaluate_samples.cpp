#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/base/atomic_file.h"
#include "forerun/base/quote.h"
#include "forerun/base/settings.h"
#include "forerun/cli/evaluate.h"
#include "forerun/cli/interrupt.h"
#include "forerun/evaluate.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettings = "settings.json";

// The folder of a set: settings.json beside CLASS/PLACE.png.
class Store {
 public:
  Store() = default;
  Store(fs::path folder, const nlohmann::json& settings, std::vector<std::string> classes)
      : folder_(std::move(folder)), classes_(std::move(classes)) {
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) {
      throw std::runtime_error(
          fmt::format("{}: cannot be made: {}", folder_.string(), failed.message()));
    }
    const auto found = load_settings(folder_ / kSettings);
    if (!found) {
      expect_no_images();
      save_settings(folder_ / kSettings, settings);
      return;
    }
    const std::string difference = settings_difference(*found, settings);
    if (difference.empty()) return;
    throw UsageError(fmt::format("{} holds images of another run: {}; choose another --keep",
                                 folder_.string(), difference));
  }

  std::optional<Image> find(std::size_t place) const {
    if (folder_.empty() || !fs::exists(path(place))) return std::nullopt;
    return load_image(path(place).string());
  }
  void put(std::size_t place, const Image& image) const {
    if (folder_.empty()) return;
    const fs::path at = path(place);
    fs::create_directory(at.parent_path());
    AtomicFile(at).commit(png_grid(std::span(&image, 1), 1));
  }

 private:
  // Without settings nobody knows the seed and the guidance of what is there.
  void expect_no_images() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(std::string(kSettings) + ".tmp-")) continue;  // of a killed process
      throw UsageError(
          fmt::format("{} holds {} and no {}, so what it is of is unknown: choose "
                      "another --keep",
                      folder_.string(), quote(name), kSettings));
    }
  }

  fs::path path(std::size_t place) const {
    return folder_ / classes_[place % classes_.size()] / fmt::format("{:06}.png", place);
  }

  fs::path folder_;
  std::vector<std::string> classes_;
};

// One set on its way.
struct Part {
  const SamplePlan::Set* plan = nullptr;
  Store store = {};
  std::vector<std::optional<Image>> images = {};  // by place
  std::uint64_t outputs = 0, passes = 0;
};

// Runs of places that a part lacks in [begin, end).
std::vector<std::pair<std::size_t, std::size_t>> gaps(const Part& part, std::size_t begin,
                                                      std::size_t end) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t i = begin; i < end; ++i) {
    if (part.images[i]) continue;
    if (!out.empty() && out.back().second == i) {
      ++out.back().second;
    } else {
      out.emplace_back(i, i + 1);
    }
  }
  return out;
}

// A line over the steps of all images of all sets.
class Bar {
 public:
  Bar(std::size_t images, std::int64_t steps)
      : images_(images), of_steps_(static_cast<double>(images) * static_cast<double>(steps)) {}

  void show(const ImageProgress& p, const std::string& name) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double steps = done_steps_ + static_cast<double>(p.steps);
    const double left = steps > 0.0 ? seconds * (of_steps_ - steps) / steps : 0.0;
    const auto whole = static_cast<long>(left);
    line_.show(fmt::format("{} of {} images sampled ({})  {}:{:02}:{:02} left",
                           done_images_ + p.images, images_, name, whole / 3600, whole / 60 % 60,
                           whole % 60));
  }
  void add(const ImageProgress& p) {
    done_steps_ += static_cast<double>(p.steps);
    done_images_ += p.images;
  }

 private:
  Progress line_;
  std::size_t images_, done_images_ = 0;
  double of_steps_, done_steps_ = 0.0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Samples the places first ... last - 1. False if it was interrupted.
bool sample(const SamplePlan& plan, Part& part, std::size_t first, std::size_t last, Bar& bar) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = first; i < last; ++i) {
    labels.push_back(static_cast<std::int64_t>(i) % plan.classes);
  }
  ImageProgress at;
  ImageListener listener;
  listener.go_on = [] { return !interrupted(); };
  listener.on_progress = [&](const ImageProgress& p) { bar.show(at = p, part.plan->name); };
  listener.on_image = [&](std::uint32_t place, const Image& image) {
    part.store.put(place, image);
    part.images[place] = image;
  };
  const auto ran = part.plan->sample(static_cast<std::uint32_t>(first), labels, listener);
  bar.add(at);
  part.outputs += ran.outputs;
  part.passes += ran.passes;
  return !ran.interrupted;
}

std::vector<Part> parts_of(const ImageReference& reference, const SamplePlan& plan) {
  std::vector<Part> parts;
  for (const SamplePlan::Set& set : plan.sets) {
    Part part{.plan = &set};
    if (!plan.keep.empty()) {
      part.store = Store(fs::path(plan.keep) / set.name, set.described, reference.classes());
    }
    for (std::size_t i = 0; i < plan.count; ++i) part.images.push_back(part.store.find(i));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

Sampled sample_sets(const ImageReference& reference, const SamplePlan& plan) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Part> parts = parts_of(reference, plan);
  Sampled out;
  for (const Part& part : parts) {
    for (const auto& image : part.images) out.found += image ? 1 : 0;
  }
  Bar bar(plan.count * parts.size() - out.found, plan.steps);
  // Long enough that samples seldom wait for the last of a turn.
  const std::size_t turn =
      parts.size() == 1 ? plan.count : std::max<std::size_t>(8 * plan.batch_size, 1);
  for (std::size_t begin = 0; begin < plan.count && !out.interrupted; begin += turn) {
    for (Part& part : parts) {
      for (const auto& [first, last] : gaps(part, begin, std::min(begin + turn, plan.count))) {
        if (!out.interrupted) out.interrupted = !sample(plan, part, first, last, bar);
      }
    }
  }
  std::size_t held = 0;
  for (const Part& part : parts) {
    out.sets.push_back(
        {.name = part.plan->name + (part.plan->exact ? "" : " (INEXACT)"), .set = {}});
    out.efficiencies.push_back(part.passes == 0 ? 0.0
                                                : static_cast<double>(part.outputs) /
                                                      static_cast<double>(part.passes));
    for (const auto& image : part.images) held += image ? 1 : 0;
  }
  out.made = held - out.found;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!std::all_of(parts.begin(), parts.end(), [&](const Part& p) { return p.images[i]; }))
      continue;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      out.sets[s].set.images.push_back(*std::move(parts[s].images[i]));
      out.sets[s].set.labels.push_back(static_cast<std::int64_t>(i) % plan.classes);
    }
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace forerun::cli
