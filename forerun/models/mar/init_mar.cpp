#include "forerun/models/mar/init_mar.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string_view>

namespace forerun {
namespace {

bool is_zero(std::string_view name) {
  return name.find("adaLN") != std::string_view::npos || name.ends_with(".bias") ||
         name == "diffloss.net.final_layer.linear.weight";
}

bool is_table(std::string_view name) {
  return name == "class_emb.weight" || name == "fake_latent" || name == "mask_token" ||
         name.ends_with("_learned") || name.find("time_embed") != std::string_view::npos;
}

}  // namespace

Mar random_mar(const MarConfig& config, std::uint64_t seed) {
  check_mar_config(config);
  constexpr double kSpread = 0.02;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Mar m = empty_mar(config);
  for (const ModelWeight& w : weights(m)) {
    if (is_zero(w.name)) {
      *w.tensor = at::zeros(w.shape);
    } else if (is_table(w.name)) {
      *w.tensor = at::empty(w.shape).normal_(0.0, kSpread, generator);
    } else if (w.shape.size() == 1) {  // norms
      *w.tensor = at::ones(w.shape);
    } else {
      const double bound = std::sqrt(6.0 / static_cast<double>(w.shape[0] + w.shape[1]));
      *w.tensor = at::empty(w.shape).uniform_(-bound, bound, generator);
    }
  }
  return m;
}

}  // namespace forerun
