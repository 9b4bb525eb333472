#include "forerun/serve/served_images.h"

namespace forerun::serve {
namespace {

template <class AnyModel>
ServedImages serve(const std::string& id, const AnyModel& model, const ImageDrafter& drafter,
                   const typename AnyModel::Options& standard) {
  return {.id = id,
          .classes = model.classes(),
          .drafter = drafter.name().substr(0, drafter.name().find(':')),
          .rule = std::string(name_of(standard.rule)),
          .decoder = ImageDecoder(model, standard.vae),
          .submit = [model, drafter, standard](Engine& engine, const ImageWish& wish,
                                               std::uint32_t index) {
            auto options = standard;
            options.seed = wish.seed;
            options.first = index;
            options.steps = wish.steps.value_or(options.steps);
            options.guidance = wish.guidance.value_or(options.guidance);
            if (!wish.drafts) options.max_draft = 0;
            return engine.submit(model, drafter, wish.label, options, wish.previews);
          }};
}

}  // namespace

ServedImages serve_images(const std::string& id, const DiffusionModel& model,
                          const ImageDrafter& drafter, const ImageOptions& standard) {
  return serve(id, model, drafter, standard);
}

ServedImages serve_images(const std::string& id, const TokenImageModel& model,
                          const ImageDrafter& drafter, const TokenImageOptions& standard) {
  return serve(id, model, drafter, standard);
}

}  // namespace forerun::serve
