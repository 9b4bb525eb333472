#include "forerun/cli/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "forerun/cli/interrupt.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

std::vector<double> read_profile(const ImageFlags& f, const DiffusionModel& model) {
  if (f.profile.empty()) {
    throw UsageError(
        "--rule relax needs --profile FILE, which `forerun profile` makes for a drafter, a number "
        "of steps and a guidance");
  }
  std::ifstream in(f.profile, std::ios::binary);
  if (!in) throw UsageError(fmt::format("cannot open the profile '{}'", f.profile));
  const auto j = nlohmann::json::parse(std::istreambuf_iterator<char>(in), {}, nullptr, false);
  try {
    if (j.at("format") != kProfileFormat) {
      throw UsageError(
          fmt::format("the profile '{}' is in the format of another version: make it "
                      "again with `forerun profile`",
                      f.profile));
    }
    const nlohmann::json wanted = profile_settings(f, model);
    for (const auto& [name, ours] : wanted.items()) {
      const nlohmann::json& its = j.at("of").at(name);
      if (its == ours) continue;
      throw UsageError(
          fmt::format("the profile '{}' is of {} {}, not {}: make one with `forerun "
                      "profile`",
                      f.profile, name, its.dump(), ours.dump()));
    }
    return j.at("relaxation").get<std::vector<double>>();
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("'{}' is no profile; `forerun profile` makes them", f.profile));
  }
}

// What no command on texts takes.
constexpr std::array<std::string_view, 9> kOfImages = {
    "--class",     "--cfg",      "--dialect", "--guided-channels", "--eta",
    "--two-calls", "--no-reuse", "--vae",     "--draft-lengths"};

}  // namespace

void bind(CLI::App& app, ImageFlags& f) {
  ImageOptions& o = f.options;
  app.add_option("-m,--model", f.model,
                 "A Diffusion Transformer: folder of forerun or diffusers, or a safetensors file "
                 "with facebookresearch/DiT's names")
      ->required();
  app.add_option("--dialect", f.dialect,
                 "Whose arithmetic: reference (facebookresearch/DiT) or diffusers, which differ")
      ->check(CLI::IsMember({"reference", "diffusers"}))
      ->capture_default_str();
  app.add_option(
         "--precision", f.precision,
         "What passes are computed in; auto: bf16 where the processor has AVX-512, else f32")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--threads", f.threads, "CPU threads, 0 = one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--class", f.classes, "Classes of the images, in turn; none: all of the model's")
      ->delimiter(',');
  app.add_option("--count", f.count, "Images")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 20))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "Steps of sampling, 1 to 1,000")->capture_default_str();
  app.add_option("--cfg", o.guidance, "Classifier-free guidance, 1 = none")->capture_default_str();
  app.add_option("--guided-channels", o.guided_channels,
                 "How many channels are guided, 0 = as the dialect does: reference 3 of 4, "
                 "diffusers all")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--variance", o.variance_share,
                 "Of a step: 0 the posterior's, 1 beta, between them by logarithm")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--eta", o.eta, "Stochasticity; 1 is DDPM")->capture_default_str();
  app.add_option("--seed", o.seed, "Of all noise")->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "Images at a time; none depends on it")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

void bind_drafting(CLI::App& app, ImageFlags& f) {
  app.add_option("-d,--drafter", f.drafter,
                 "none, free:FOLDER, asd, frozen, or self (the model itself)")
      ->capture_default_str();
  app.add_option("--rule", f.rule, "maximal (exact), or relax (INEXACT, with --profile)")
      ->check(CLI::IsMember({"maximal", "relax"}))
      ->capture_default_str();
  app.add_option("--profile", f.profile, "How loose relax is, by step; `forerun profile` makes it");
  app.add_option("-L,--draft-length", f.options.draft_length,
                 "States that a pass of the model scores for an image, 1 to 1024; all but one are "
                 "drafted. auto: as many as make it faster here, none if need be; then the images "
                 "of a seed depend on the clock, though not their law")
      ->transform(auto_length())
      ->check(CLI::Range(0, 1024))
      ->default_str(length_name(f.options.draft_length));
  app.add_flag("--two-calls", f.options.two_calls,
               "A pass of the model before drafting, and one after, as the papers count");
  app.add_flag("--no-reuse{false}", f.options.reuse,
               "Without correcting guesses by what passes said of discarded states, as published");
}

DiffusionModel load_diffusion(const ImageFlags& f) {
  set_threads(f.threads);
  const bool bf16 = f.precision == "auto" ? images_in_bf16() : f.precision == "bf16";
  return DiffusionModel::load(
      f.model, f.dialect == "diffusers" ? DitDialect::kDiffusers : DitDialect::kReference,
      bf16 ? Precision::kBF16 : Precision::kF32);
}

std::vector<std::int64_t> labels_of(const ImageFlags& f, const DiffusionModel& model) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < f.count; ++i) {
    out.push_back(f.classes.empty()
                      ? static_cast<std::int64_t>(i % static_cast<std::size_t>(model.classes()))
                      : f.classes[i % f.classes.size()]);
  }
  return out;
}

ImageOptions resolve(const ImageFlags& f, const DiffusionModel& model) {
  ImageOptions o = f.options;
  if (f.rule == "relax") o.relaxation = read_profile(f, model);
  return o;
}

nlohmann::json step_settings(const ImageOptions& o, const DiffusionModel& model) {
  return {{"precision", std::string(name_of(model.precision()))},
          {"steps", o.steps},
          {"guidance", o.guidance},
          {"guided_channels", o.guided_channels},
          {"variance", o.variance_share},
          {"eta", o.eta}};
}

nlohmann::json profile_settings(const ImageFlags& f, const DiffusionModel& model) {
  nlohmann::json out = step_settings(f.options, model);
  out.update({{"model", model.digest()},
              {"drafter", f.drafter.substr(0, f.drafter.find(':'))},
              {"dialect", f.dialect},
              {"two calls", f.options.two_calls},
              {"reuse", f.options.reuse}});
  return out;
}

ImageListener watching(Progress& progress) {
  ImageListener out;
  out.go_on = [] { return !interrupted(); };
  out.on_progress = [&progress](const ImageProgress& p) {
    constexpr std::size_t kWidth = 24;
    const double share =
        p.of_steps == 0 ? 0.0 : static_cast<double>(p.steps) / static_cast<double>(p.of_steps);
    const auto filled = static_cast<std::size_t>(share * kWidth);
    const double left = share > 0.0 ? p.seconds * (1.0 - share) / share : 0.0;
    std::string drafts;
    if (p.kept + p.rejected > 0) {
      drafts = fmt::format("  drafts {} kept, {} rejected", p.kept, p.rejected);
    }
    progress.show(fmt::format("[{}{}] {} of {} steps, {} of {} images{}  {:.0f} s left",
                              std::string(filled, '#'), std::string(kWidth - filled, '.'), p.steps,
                              p.of_steps, p.images, p.of_images, drafts, left));
  };
  return out;
}

CLI::Transformer auto_length() {
  return CLI::Transformer(std::map<std::string, std::string>{{"auto", "0"}});
}

std::string length_name(std::size_t length) {
  return length == 0 ? "auto" : fmt::format("{}", length);
}

nlohmann::json length_json(std::size_t length) {
  return length == 0 ? nlohmann::json("auto") : nlohmann::json(length);
}

nlohmann::json settings(const ImageFlags& f, const DiffusionModel& model) {
  const ImageOptions& o = f.options;
  nlohmann::json out = step_settings(o, model);
  out.update({{"model", f.model},
              {"model_digest", model.digest()},
              {"dialect", f.dialect},
              {"classes", f.classes},
              {"drafter", f.drafter},
              {"rule", f.rule},
              {"draft_length", length_json(o.draft_length)},
              {"two_calls", o.two_calls},
              {"reuse", o.reuse},
              {"seed", o.seed},
              {"batch_size", o.batch_size}});
  return out;
}

nlohmann::json to_json(const ImageRun& r) {
  std::vector<std::uint64_t> examined, kept;
  for (const StepStatistics& s : r.steps) {
    examined.push_back(s.examined);
    kept.push_back(s.kept);
  }
  return {{"images", r.values.size()},
          {"interrupted", r.interrupted},
          {"examined_by_step", examined},
          {"accepted_by_step", kept},
          {"efficiency", r.efficiency()},
          {"transitions", r.statistics.outputs},
          {"calls", r.calls},
          {"states", r.states},
          {"drafted", r.statistics.drafted},
          {"examined_by_position", r.statistics.examined},
          {"accepted_by_position", r.statistics.accepted},
          {"seconds", r.seconds},
          {"drafter_seconds", r.statistics.seconds.drafter},
          {"target_seconds", r.statistics.seconds.target},
          {"exact", r.exact}};
}

nlohmann::json to_json(const ImageCertificate& c) {
  return {{"passed", c.passed()},
          {"interrupted", c.interrupted},
          {"transitions", c.report.outputs},
          {"drafted", c.report.drafted},
          {"z", c.report.z},
          {"ks_p", c.report.ks_p},
          {"energy_p", c.report.energy_p},
          {"forbidden", c.report.forbidden},
          {"kept", c.kept},
          {"expected", c.expected},
          {"expected_z", c.expected_z},
          {"shift", c.shift},
          {"predicted_shift", c.predicted_shift},
          {"seconds", c.seconds}};
}

std::string summary(const ImageRun& r) {
  const auto steps = static_cast<double>(r.steps.size());
  // Of images that were interrupted too.
  return fmt::format("{:.0f} steps in {:.1f} target calls an image: parallel efficiency {:.2f}",
                     steps, r.efficiency() > 0.0 ? steps / r.efficiency() : 0.0, r.efficiency());
}

bool asks_for_images(int argc, const char* const* argv) {
  std::string model;
  bool of_images = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const std::string_view name = arg.substr(0, arg.find('='));
    of_images = of_images || std::ranges::find(kOfImages, name) != kOfImages.end();
    if (!model.empty()) continue;
    if ((arg == "-m" || arg == "--model") && i + 1 < argc) {
      model = argv[i + 1];
    } else if (arg.starts_with("--model=")) {
      model = arg.substr(8);
    } else if (arg.starts_with("-m") && arg.size() > 2) {
      model = arg.substr(arg[2] == '=' ? 3 : 2);
    }
  }
  return !model.empty() && (of_images || is_diffusion_model(model));
}

}  // namespace forerun::cli
