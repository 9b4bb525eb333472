#include "forerun/train/gradients.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <string_view>

namespace forerun {
namespace {

void expect_master_copy(const Parameter& p) {
  const at::Tensor& t = p.value;
  if (!t.defined() || t.scalar_type() != at::kFloat || !t.is_contiguous() || !t.is_leaf() ||
      !t.requires_grad()) {
    throw std::invalid_argument(fmt::format(
        "train: parameter {} must be a contiguous float32 leaf that requires grad", p.name));
  }
}

}  // namespace

Gradients::Gradients(std::vector<Parameter>& parameters) : parameters_(parameters) {
  std::set<std::string_view> names;
  std::int64_t total = 0;
  for (const Parameter& p : parameters) {
    expect_master_copy(p);
    if (!names.insert(p.name).second) {
      throw std::invalid_argument(fmt::format("train: two parameters are named {}", p.name));
    }
    if (p.value.device() != parameters.front().value.device()) {
      throw std::invalid_argument(fmt::format("train: parameter {} is on another device than {}",
                                              p.name, parameters.front().name));
    }
    total += p.value.numel();
  }
  if (total == 0) throw std::invalid_argument("train: there are no parameters to train");
  flat_ = at::zeros({total}, parameters.front().value.options().requires_grad(false));
  std::int64_t begin = 0;
  for (Parameter& p : parameters) {
    views_.push_back(flat_.narrow(0, begin, p.value.numel()).view(p.value.sizes()));
    p.value.mutable_grad() = views_.back();  // autograd adds to an existing gradient
    begin += p.value.numel();
  }
}

Gradients::~Gradients() {
  for (Parameter& p : parameters_) p.value.mutable_grad().reset();
}

void Gradients::zero_() { flat_.zero_(); }

double Gradients::norm() const {
  return at::linalg_vector_norm(flat_, 2, at::OptionalIntArrayRef{}, false, at::kDouble)
      .item<double>();
}

void Gradients::scale_(double factor) { flat_.mul_(factor); }

std::span<float> Gradients::values_() {
  return {flat_.data_ptr<float>(), static_cast<std::size_t>(flat_.numel())};
}

double clip_factor(double norm, double limit) {
  return limit > 0.0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace forerun
