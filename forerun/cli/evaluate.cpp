#include "forerun/cli/evaluate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "forerun/cli/terminal.h"
#include "forerun/evaluate.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

struct EvaluateFlags : EvaluatedRun {
  std::string data;
  std::vector<std::string> folders;
  EvaluationOptions evaluation;
  bool json = false;
};

Sampled sampled(const EvaluateFlags& f, const ImageReference& reference, const SamplePlan& plan) {
  Sampled out = sample_sets(reference, plan);
  if (out.found > 0) {
    note(fmt::format("{} images were in {} already, {} were sampled", out.found, printable(f.keep),
                     out.made));
  }
  for (std::size_t i = 0; i < out.sets.size(); ++i) {
    if (out.efficiencies[i] == 0.0) continue;
    note(styled(stderr, Style::kDim,
                fmt::format("{}: {:.2f} outputs a pass", out.sets[i].name, out.efficiencies[i])));
  }
  if (out.interrupted) {
    note(fmt::format("interrupted: {} of {} images of each set are there{}",
                     out.sets.front().set.images.size(), plan.count,
                     f.keep.empty() ? "" : "; the same command resumes it"));
  }
  return out;
}

// The last part of each path, or the paths where that would not tell them apart.
std::vector<std::string> folder_names(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  std::set<std::string> met;
  for (std::string path : folders) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    out.push_back(path.substr(path.find_last_of('/') + 1));
    met.insert(out.back());
  }
  return met.size() == folders.size() ? out : folders;
}

Sampled read(const EvaluateFlags& f, const ImageReference& reference) {
  Sampled out;
  const std::vector<std::string> names = folder_names(f.folders);
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.sets.push_back({.name = names[i], .set = load_image_set(f.folders[i], reference)});
  }
  return out;
}

nlohmann::json document(const std::optional<PlannedRun>& planned, const Sampled& s,
                        const ImageEvaluation& e, const std::vector<std::string>& names,
                        const ImageReference& reference) {
  nlohmann::json j = to_json(e, names, reference);
  j["interrupted"] = s.interrupted;
  if (!planned) return j;
  j.update(planned->settings);
  j["found"] = s.found;
  j["sampled"] = s.made;
  j["sampling_seconds"] = s.seconds;
  for (std::size_t i = 0; i < s.efficiencies.size(); ++i) {
    j["sets"][i]["efficiency"] = s.efficiencies[i];
  }
  return j;
}

int run_evaluate(const EvaluateFlags& f) {
  if (f.run.model.path.empty() == f.folders.empty()) {
    throw UsageError("evaluate: give a model to sample from (-m), or folders of images (--images)");
  }
  set_threads(f.run.model.threads);
  const ImageReference reference = ImageReference::load(f.classifier, f.data);
  std::optional<PlannedRun> planned;
  if (f.folders.empty()) planned = plan_samples(f, reference);
  const Sampled s = planned ? sampled(f, reference, planned->plan) : read(f, reference);
  constexpr std::size_t kLeast = 4;  // as evaluate_images
  if (s.interrupted && s.sets.front().set.images.size() < kLeast) return 130;
  std::vector<ImageSet> sets;
  std::vector<std::string> names;
  for (const NamedSet& named : s.sets) {
    sets.push_back(named.set);
    names.push_back(named.name);
  }
  Progress progress;
  const ImageEvaluation e = evaluate_images(
      reference, sets, f.evaluation,
      [&](std::string_view part) { progress.show(fmt::format("evaluating: {}", part)); });
  progress.clear();
  if (f.json) {
    write_json(document(planned, s, e, names, reference));
  } else {
    for (std::string& name : names) name = printable(name);
    write_out(evaluation_table(e, names, reference));
  }
  return s.interrupted ? 130 : 0;
}

void bind_all(Command& app, EvaluateFlags& f) {
  app.add("--classifier", f.classifier,
          "Folder of the classifier; `forerun train classifier` makes it",
          {.required = true, .shows = "FOLDER"});
  app.add("--data", f.data, "Folder of the images that it, and the model, were trained on",
          {.required = true, .shows = "FOLDER"});
  bind_model(app, f.run.model, Makes::kImages, false);
  bind_images(app, f.run);
  bind_drafter(app, f.run.draft, Makes::kImages);
  bind_drafting(app, f.run.draft, Makes::kImages, "7 for images, 4 token by token");
  app.group(kOutputTitle);
  app.add("-n,--count", f.run.images.count, "Images of a set, over all classes in turn",
          {.least = 4, .most = 1 << 20});
  app.add("--against", f.against,
          "Samples a second set with this drafter (none: plain sampling) from the same "
          "seeds, and compares",
          {.shows = "NAME"});
  app.add("--keep", f.keep,
          "Folder for the images, as PNG files by set and class; those it holds are not "
          "sampled again",
          {.shows = "FOLDER"});
  app.add("--images", f.folders,
          "Images made before, CLASS/*.png, in place of -m; several folders are compared "
          "with the first",
          {.shows = "FOLDER ..."});
  app.add("--replicates", f.evaluation.replicates, "Sets drawn again from each set, for the errors",
          {.least = 2, .most = 10000});
  app.add("--json", f.json, "One JSON document on standard output");
}

}  // namespace

void add_evaluate(Command& program) {
  auto f = std::make_shared<EvaluateFlags>();
  f->run.images.count = 1000;
  f->run.draft.fixed = true;
  Command& command = program.add_command(
      "evaluate",
      "Compare sampled images with test images under a small classifier (models of images)");
  bind_all(command, *f);
  command.footer(R"(Examples:
  forerun evaluate --classifier classifier --data /usr/share/datasets/fashion-mnist -m dit --drafter asd
      --against none --count 5000 --keep samples
  forerun evaluate --classifier classifier --data /usr/share/datasets/fashion-mnist -m mar --drafter cspd:draft
      --against none --count 500
  forerun evaluate --classifier classifier --data /usr/share/datasets/fashion-mnist --images samples/plain

cFID and c-sFID are Frechet distances of features of the classifier: not Inception FID, not comparable with published
numbers, blind to small biases (`forerun certify` tests for those). The floor is what as many training images get.
Ctrl-C reports on the images that are finished; with --keep the same command resumes where it was stopped, and a
larger --count adds to what is there.)");
  command.runs([f, &command] {
    if (command.given("--model")) settle(f->run, command, {.image = 7, .token = 4});
    return run_evaluate(*f);
  });
}

}  // namespace forerun::cli
