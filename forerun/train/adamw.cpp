#include "forerun/train/adamw.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

namespace forerun {

AdamW::AdamW(std::vector<Parameter> parameters, Options options)
    : parameters_(std::move(parameters)), options_(options) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    m_.push_back(at::zeros_like(p.value, at::TensorOptions().requires_grad(false)));
    v_.push_back(at::zeros_like(m_.back()));
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return g.rate == p.rate && g.decay == p.decay;
    });
    if (group == groups_.end()) group = groups_.insert(group, {p.rate, p.decay, {}});
    group->members.push_back(i);
  }
}

void AdamW::update_(const std::vector<at::Tensor>& gradients, double rate, std::int64_t step) {
  const c10::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    std::vector<at::Tensor> p, g, m, v;
    for (const std::size_t i : group.members) {
      p.push_back(parameters_[i].value);
      g.push_back(gradients[i]);
      m.push_back(m_[i]);
      v.push_back(v_[i]);
    }
    const std::vector<at::Tensor> steps(
        p.size(), at::full({}, static_cast<double>(step), m.front().options()));
    at::_fused_adamw_(p, g, m, v, {}, steps, rate * group.rate, options_.beta1, options_.beta2,
                      group.decay ? options_.weight_decay : 0.0, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

WeightAverage::WeightAverage(const std::vector<Parameter>& parameters, double decay)
    : decay_(decay) {
  if (!on()) return;
  for (const Parameter& p : parameters) values_.push_back(p.value.detach().clone());
}

void WeightAverage::update_(const std::vector<Parameter>& parameters, std::int64_t step) {
  if (!on()) return;
  const c10::NoGradGuard no_grad;
  const auto t = static_cast<double>(step);
  std::vector<at::Tensor> now;
  for (const Parameter& p : parameters) now.push_back(p.value);
  at::_foreach_lerp_(values_, now, 1.0 - std::min(decay_, (1.0 + t) / (10.0 + t)));
}

}  // namespace forerun
