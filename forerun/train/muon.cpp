#include "forerun/train/muon.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace forerun {
namespace {

std::vector<std::size_t> those(const std::vector<Parameter>& parameters, bool muon, bool matrices) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool matrix = muon && parameters[i].decay && parameters[i].value.dim() == 2;
    if (matrix == matrices) out.push_back(i);
  }
  return out;
}

template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<std::size_t>& which) {
  std::vector<T> out;
  for (const std::size_t i : which) out.push_back(all[i]);
  return out;
}

}  // namespace

at::Tensor orthogonalized(const at::Tensor& g, at::ScalarType type) {
  constexpr int kIterations = 5;
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kLeast = 1e-7;
  const bool tall = g.size(0) > g.size(1);
  at::Tensor x = g.to(type);
  if (tall) x = x.t().contiguous();
  x = x / x.norm().clamp_min(kLeast);
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA, 1.0);
  }
  return tall ? x.t() : x;
}

Optimizer::Optimizer(const std::vector<Parameter>& parameters, const Options& options)
    : parameters_(parameters),
      options_(options),
      matrices_(those(parameters, options.muon, true)),
      others_(those(parameters, options.muon, false)),
      adamw_(picked(parameters, others_), options.adamw) {
  for (const std::size_t i : matrices_) {
    momentum_.push_back(
        at::zeros_like(parameters_[i].value, at::TensorOptions().requires_grad(false)));
  }
}

void Optimizer::update_(const std::vector<at::Tensor>& gradients, double rate, std::int64_t step) {
  const c10::NoGradGuard no_grad;
  if (!others_.empty()) adamw_.update_(picked(gradients, others_), rate, step);
  for (std::size_t k = 0; k < matrices_.size(); ++k) {
    const Parameter& p = parameters_[matrices_[k]];
    const at::Tensor &g = gradients[matrices_[k]], m = momentum_[k];
    m.lerp_(g, 1.0 - options_.momentum);
    const at::Tensor direction =
        orthogonalized(at::lerp(g, m, options_.momentum), options_.products);
    const double own = rate * p.rate;
    const auto longer = static_cast<double>(std::max(p.value.size(0), p.value.size(1)));
    at::Tensor value = p.value.detach();
    value.mul_(1.0 - own * options_.adamw.weight_decay);
    value.add_(direction.to(value.scalar_type()), -own * 0.2 * std::sqrt(longer));
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (std::size_t k = 0; k < others_.size(); ++k) {
    const std::string& name = parameters_[others_[k]].name;
    out.emplace_back("first_moment/" + name, adamw_.first_moments()[k]);
    out.emplace_back("second_moment/" + name, adamw_.second_moments()[k]);
  }
  for (std::size_t k = 0; k < matrices_.size(); ++k) {
    out.emplace_back("first_moment/" + parameters_[matrices_[k]].name, momentum_[k]);
  }
  return out;
}

}  // namespace forerun
