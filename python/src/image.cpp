#include <forerun/token_image.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "image_options.h"
#include "interrupts.h"
#include "lock.h"
#include "members.h"
#include "path.h"
#include "pickle.h"
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
struct ShapedRun {
  ImageRun run;
  std::size_t channels = 0, side = 0;
  std::uint64_t seed = 0;

  /// [images, channels, side, side] float32.
  nb::ndarray<nb::numpy, float> values() const {
    std::vector<float> all;
    for (const auto& v : run.values) all.insert(all.end(), v.begin(), v.end());
    return array(std::move(all), {run.values.size(), channels, side, side});
  }
};

auto members(ShapedRun& s) { return std::tie(s.run, s.channels, s.side, s.seed); }

/// A property of a run.
template <auto kField>
void def_field(nb::class_<ShapedRun>& c, const char* name, const char* help) {
  c.def_prop_ro(
      name, [](const ShapedRun& s) { return s.run.*kField; }, help);
}

void bind_run(nb::module_& m) {
  nb::class_<ShapedRun> c(m, "ImageRun", "Sampled images, and how they came about.");
  c.def_prop_ro(
       "images", [](const ShapedRun& s) { return pixels(s.run.images); }, nb::rv_policy::automatic,
       "[images, height, width, channels] uint8")
      .def_prop_ro("values", &ShapedRun::values, nb::rv_policy::automatic,
                   "[images, channels, side, side] float32 in [-1, 1], or latents")
      .def_prop_ro(
          "efficiency", [](const ShapedRun& s) { return s.run.efficiency(); },
          "steps, or tokens, for each sequential pass; 1 without drafts")
      .def_prop_ro("acceptance", [](const ShapedRun& s) { return s.run.statistics.acceptance(); });
  def_field<&ImageRun::statistics>(c, "statistics", "the raw counters");
  def_field<&ImageRun::seconds>(c, "seconds", "of sampling");
  def_field<&ImageRun::exact>(c, "exact", "the rule keeps the target's law");
  def_field<&ImageRun::interrupted>(c, "interrupted", "some images are missing");
  def_field<&ImageRun::calls>(c, "calls", "sequential passes of the target, summed over images");
  def_field<&ImageRun::passes>(
      c, "passes", "token by token: of the target's backbone, each for all images of a batch");
  c.def_ro("seed", &ShapedRun::seed);
  c.def("__repr__", [](const ShapedRun& s) {
    return nb::str(
               "ImageRun({} images, {}x{}, exact={}, seed={}, efficiency={:.2f}, "
               "acceptance={:.2f}, seconds={:.2f})")
        .format(s.run.values.size(), s.side, s.side, s.run.exact, s.seed, s.run.efficiency(),
                s.run.statistics.acceptance(), s.run.seconds);
  });
  def_pickle(c);
}

template <class Kind, class... Base>
void def_repr(nb::class_<Kind, Base...>& c, const char* name) {
  c.def("__repr__", [name](const Kind& i) {
    return nb::str("{}({!r}, precision={!r})")
        .format(name, FilePath{i.path()}, std::string(name_of(i.precision())));
  });
}

void bind_models(nb::module_& m) {
  nb::class_<ImageModel>(m, "ImageModel", "A model of images, of any kind.")
      .def_prop_ro("path", [](const ImageModel& i) { return FilePath{i.path()}; })
      .def_prop_ro("precision",
                   [](const ImageModel& i) { return std::string(name_of(i.precision())); })
      .def_prop_ro("classes", &ImageModel::classes)
      .def_prop_ro("side", &ImageModel::side, "of its images, or of their latents")
      .def_prop_ro("channels", &ImageModel::channels, "of these")
      .def_prop_ro("parameters", &ImageModel::parameters)
      .def_prop_ro("latent", &ImageModel::latent, "its images need a decoder")
      .def("digest", &ImageModel::digest, nb::call_guard<Unlocked>(),
           "A hash of the model's weights.");
  nb::class_<DiffusionModel, ImageModel> diffusion(m, "DiffusionModel", "A Diffusion Transformer.");
  def_repr(diffusion, "DiffusionModel");
  diffusion.def(
      "__init__",
      [](DiffusionModel* self, const FilePath& path, const std::string& precision, bool diffusers) {
        const Unlocked unlocked;
        new (self) DiffusionModel(DiffusionModel::load(
            path.bytes, diffusers ? DitDialect::kDiffusers : DitDialect::kReference,
            precision_request(precision)));
      },
      "path"_a, "precision"_a = "auto", "diffusers"_a = false,
      "A folder, or one safetensors file; `diffusers`: computes as diffusers does.");
  nb::class_<TokenImageModel, ImageModel> tokens(
      m, "TokenImageModel", "A transformer of image tokens with a diffusion head (MAR).");
  def_repr(tokens, "TokenImageModel");
  tokens
      .def(
          "__init__",
          [](TokenImageModel* self, const FilePath& path, const std::string& precision) {
            const Unlocked unlocked;
            new (self)
                TokenImageModel(TokenImageModel::load(path.bytes, precision_request(precision)));
          },
          "path"_a, "precision"_a = "auto")
      .def_prop_ro("tokens", &TokenImageModel::tokens, "of an image")
      .def_prop_ro("dim", &TokenImageModel::dim, "numbers of a token");
}

/// What takes a model of one kind.
template <class Model>
void bind_kind(nb::module_& m, nb::class_<ImageDrafter>& drafter, const char* drafters) {
  using Options = typename Model::Options;
  using Labels = std::vector<std::int64_t>;
  drafter.def(
      "__init__",
      [](ImageDrafter* self, const std::string& name, const Model& target) {
        const Unlocked unlocked;
        new (self) ImageDrafter(ImageDrafter::load(name, target));
      },
      "name"_a, "target"_a, drafters);
  m.def(
      "generate_images",
      [](const Model& model, const ImageDrafter& drafts, const Labels& labels,
         const Options& options) {
        Interrupts interrupts;
        return ShapedRun{
            interrupts.during([&] {
              return generate_images(model, drafts, labels, options, listener_of(interrupts));
            }),
            static_cast<std::size_t>(model.channels()), static_cast<std::size_t>(model.side()),
            options.seed};
      },
      "model"_a, "drafter"_a, "labels"_a, "options"_a);
  m.def(
      "certify_images",
      [](const Model& model, const ImageDrafter& drafts, const Labels& labels,
         const Options& options, std::size_t counterfactuals) {
        Interrupts interrupts;
        return SeededCertificate{interrupts.during([&] {
                                   return certify_images(model, drafts, labels, options,
                                                         listener_of(interrupts), counterfactuals);
                                 }),
                                 options.seed};
      },
      "model"_a, "drafter"_a, "labels"_a, "options"_a, "counterfactuals"_a = 16);
}

}  // namespace

void bind_images(nb::module_& m) {
  bind_models(m);
  bind_options<ImageOptions>(m, "ImageOptions", "How images are sampled.");
  bind_options<TokenImageOptions>(m, "TokenImageOptions", "How images are sampled token by token.");
  nb::class_<ImageDrafter> drafter(m, "ImageDrafter", "A drafter of images.");
  drafter.def_prop_ro("name", &ImageDrafter::name)
      .def_prop_ro("cost", &ImageDrafter::cost, "of a draft, over what it stands for")
      .def("__repr__", [](const ImageDrafter& d) { return "ImageDrafter('" + d.name() + "')"; });
  bind_run(m);
  bind_kind<DiffusionModel>(m, drafter, "none, asd, frozen, self, free:FOLDER");
  bind_kind<TokenImageModel>(m, drafter, "none, self, cspd:FOLDER");
  m.def(
      "is_diffusion_model", [](const FilePath& path) { return is_diffusion_model(path.bytes); },
      "path"_a);
  m.def(
      "is_token_image_model", [](const FilePath& path) { return is_token_image_model(path.bytes); },
      "path"_a);
}

}  // namespace forerun::python
