#include <forerun/image.h>
#include <forerun/token_image.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <type_traits>

#include "arrays.h"
#include "bindings.h"
#include "image_options.h"
#include "interrupts.h"
#include "precision.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;

ImageListener listener_of(Interrupts& interrupts) {
  ImageListener listener;
  listener.go_on = [&interrupts] { return interrupts.go_on(); };
  return listener;
}

/// [images, height, width, channels] uint8; no images: an empty array.
nb::ndarray<nb::numpy, std::uint8_t> pixels(const std::vector<Image>& images) {
  if (images.empty()) return array<std::uint8_t>({}, {0, 0, 0, 0});
  std::vector<std::uint8_t> all;
  for (const Image& image : images) all.insert(all.end(), image.pixels.begin(), image.pixels.end());
  const Image& first = images.front();
  return array(std::move(all),
               {images.size(), static_cast<std::size_t>(first.height),
                static_cast<std::size_t>(first.width), static_cast<std::size_t>(first.channels)});
}

/// A run with the shape of its values. They are handed out once each, as arrays.
template <class Run>
struct ShapedRun {
  Run run;
  std::size_t channels = 0, side = 0;

  /// [images, channels, side, side] float32.
  nb::ndarray<nb::numpy, float> values() const {
    std::vector<float> all;
    for (const auto& v : run.values) all.insert(all.end(), v.begin(), v.end());
    return array(std::move(all), {run.values.size(), channels, side, side});
  }
};

template <class Run>
nb::class_<ShapedRun<Run>> bind_run(nb::module_& m, const char* name) {
  using Shaped = ShapedRun<Run>;
  return nb::class_<Shaped>(m, name, "Sampled images, and how they came about.")
      .def_prop_ro(
          "images", [](const Shaped& s) { return pixels(s.run.images); }, nb::rv_policy::automatic,
          "[images, height, width, channels] uint8")
      .def_prop_ro("values", &Shaped::values, nb::rv_policy::automatic,
                   "[images, channels, side, side] float32 in [-1, 1], or latents")
      .def_prop_ro("statistics", [](const Shaped& s) { return s.run.statistics; })
      .def_prop_ro("seconds", [](const Shaped& s) { return s.run.seconds; })
      .def_prop_ro("exact", [](const Shaped& s) { return s.run.exact; })
      .def_prop_ro("interrupted", [](const Shaped& s) { return s.run.interrupted; });
}

/// What models of both kinds have, and the functions that take them.
template <class Model>
void bind_model_properties(nb::class_<Model>& c) {
  c.def_prop_ro("path", &Model::path)
      .def_prop_ro("classes", &Model::classes)
      .def_prop_ro("side", &Model::side, "of its images, or of their latents")
      .def_prop_ro("channels", &Model::channels, "of these")
      .def_prop_ro("parameters", &Model::parameters)
      .def_prop_ro("latent", &Model::latent, "its images need a decoder")
      .def("digest", &Model::digest, nb::call_guard<nb::gil_scoped_release>(),
           "A hash of the model's weights.");
}

template <class Drafter, class Model>
void bind_drafter(nb::module_& m, const char* name, const char* help) {
  nb::class_<Drafter>(m, name, "A drafter of images.")
      .def(
          "__init__",
          [](Drafter* self, const std::string& what, const Model& target) {
            const nb::gil_scoped_release unlocked;
            new (self) Drafter(Drafter::load(what, target));
          },
          "name"_a, "target"_a, help)
      .def_prop_ro("name", &Drafter::name)
      .def_prop_ro("cost", &Drafter::cost, "of a draft, over what it stands for");
}

/// @param sample, judge  the library's functions for such models
template <class Model, class Drafter, class Options, class Sample, class Judge>
void bind_functions(nb::module_& m, Sample sample, Judge judge) {
  m.def(
      "generate_images",
      [sample](const Model& model, const Drafter& drafter, const std::vector<std::int64_t>& labels,
               const Options& options) {
        Interrupts interrupts;
        auto run = interrupts.during(
            [&] { return sample(model, drafter, labels, options, listener_of(interrupts)); });
        return ShapedRun<decltype(run)>{std::move(run), static_cast<std::size_t>(model.channels()),
                                        static_cast<std::size_t>(model.side())};
      },
      "model"_a, "drafter"_a, "labels"_a, "options"_a);
  m.def(
      "certify_images",
      [judge](const Model& model, const Drafter& drafter, const std::vector<std::int64_t>& labels,
              const Options& options, std::size_t counterfactuals) {
        Interrupts interrupts;
        return interrupts.during([&] {
          return judge(model, drafter, labels, options, listener_of(interrupts), counterfactuals);
        });
      },
      "model"_a, "drafter"_a, "labels"_a, "options"_a, "counterfactuals"_a = 16);
}

void bind_diffusion(nb::module_& m) {
  nb::class_<DiffusionModel> model(m, "DiffusionModel", "A Diffusion Transformer.");
  model.def(
      "__init__",
      [](DiffusionModel* self, const std::string& path, const std::string& precision,
         bool diffusers) {
        const nb::gil_scoped_release unlocked;
        new (self) DiffusionModel(
            DiffusionModel::load(path, diffusers ? DitDialect::kDiffusers : DitDialect::kReference,
                                 precision_request(precision)));
      },
      "path"_a, "precision"_a = "auto", "diffusers"_a = false,
      "A folder, or one safetensors file; `diffusers`: computes as diffusers does.");
  model.def_prop_ro("precision",
                    [](const DiffusionModel& d) { return std::string(name_of(d.precision())); });
  bind_model_properties(model);
  bind_drafter<ImageDrafter, DiffusionModel>(m, "ImageDrafter",
                                             "none, asd, frozen, self, free:FOLDER");
  bind_options<ImageOptions>(m, "ImageOptions", "How images are sampled.");
  bind_run<ImageRun>(m, "ImageRun")
      .def_prop_ro(
          "calls", [](const ShapedRun<ImageRun>& s) { return s.run.calls; },
          "sequential passes of the target, summed over images")
      .def_prop_ro(
          "efficiency", [](const ShapedRun<ImageRun>& s) { return s.run.efficiency(); },
          "steps for each sequential pass; 1 without drafts");
  bind_functions<DiffusionModel, ImageDrafter, ImageOptions>(m, &generate_images, &certify_images);
}

void bind_tokens(nb::module_& m) {
  nb::class_<TokenImageModel> model(m, "TokenImageModel",
                                    "A transformer of image tokens with a diffusion head (MAR).");
  model.def(
      "__init__",
      [](TokenImageModel* self, const std::string& path, const std::string& precision) {
        const nb::gil_scoped_release unlocked;
        new (self) TokenImageModel(TokenImageModel::load(path, precision_request(precision)));
      },
      "path"_a, "precision"_a = "auto");
  model.def_prop_ro("precision",
                    [](const TokenImageModel& t) { return std::string(name_of(t.precision())); });
  model.def_prop_ro("tokens", &TokenImageModel::tokens, "of an image")
      .def_prop_ro("dim", &TokenImageModel::dim, "numbers of a token");
  bind_model_properties(model);
  bind_drafter<TokenImageDrafter, TokenImageModel>(m, "TokenImageDrafter",
                                                   "none, self, cspd:FOLDER");
  bind_options<TokenImageOptions>(m, "TokenImageOptions", "How images are sampled token by token.");
  bind_run<TokenImageRun>(m, "TokenImageRun")
      .def_prop_ro(
          "passes", [](const ShapedRun<TokenImageRun>& s) { return s.run.passes; },
          "of the target's backbone, each for all images of a batch")
      .def_prop_ro("acceptance",
                   [](const ShapedRun<TokenImageRun>& s) { return s.run.acceptance(); });
  bind_functions<TokenImageModel, TokenImageDrafter, TokenImageOptions>(m, &generate_token_images,
                                                                        &certify_token_images);
}

}  // namespace

void bind_images(nb::module_& m) {
  nb::class_<ImageCertificate>(m, "ImageCertificate",
                               "Whether images of such a run have the law of plain sampling.")
      .def_ro("report", &ImageCertificate::report)
      .def_ro("kept", &ImageCertificate::kept)
      .def_ro("expected", &ImageCertificate::expected, "what an exact rule keeps, on average")
      .def_ro("expected_z", &ImageCertificate::expected_z)
      .def_ro("shift", &ImageCertificate::shift)
      .def_prop_ro("counterfactuals",
                   [](const ImageCertificate& c) { return c.counterfactuals.places; })
      .def_prop_ro("violations",
                   [](const ImageCertificate& c) { return c.counterfactuals.violations; })
      .def_prop_ro("passed", &ImageCertificate::passed);
  bind_diffusion(m);
  bind_tokens(m);
  m.def("is_diffusion_model", &is_diffusion_model, "path"_a);
  m.def("is_token_image_model", &is_token_image_model, "path"_a);
}

}  // namespace forerun::python
