#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/formats/safetensors_write.h"
#include "forerun/train/objective.h"

namespace forerun::testing {

/// A small real task: a two-layer network learns y = sin(a . x) from noisy examples with different
/// weights, so that a mean of means would differ. Inputs and noise are keyed by (seed, example).
class TinyObjective : public Objective {
 public:
  struct Options {
    std::size_t examples = 37, held_out = 5;
    std::int64_t inputs = 6, hidden = 24;
    std::function<void(std::span<const std::size_t>)> before_loss;  ///< e.g. to fail
    std::function<void()> before_held_out_loss;                     ///< likewise
    double poison = 0.0;                                            ///< added to the loss, e.g. NaN
    const double* held_out_poison = nullptr;                        ///< to the held-out loss
    std::string name = "tiny";
    std::uint32_t start = 1;  ///< other numbers: other first weights
  };

  /// @param poison  read at every loss instead of options.poison, if given
  explicit TinyObjective(Options options, const double* poison = nullptr)
      : o_(std::move(options)), poison_(poison) {
    in_ = weights({o_.hidden, o_.inputs}, o_.start);
    bias_ = at::zeros({o_.hidden});
    out_ = weights({1, o_.hidden}, 2);
    for (at::Tensor* t : {&in_, &bias_, &out_}) t->requires_grad_(true);
  }
  TinyObjective() : TinyObjective(Options{}) {}

  std::vector<Parameter> parameters() override {
    return {{"in.weight", in_}, {"in.bias", bias_, 1.0, false}, {"out.weight", out_, 0.5}};
  }
  std::size_t size() const override { return o_.examples; }
  std::size_t held_out() const override { return o_.held_out; }
  LossSum loss(std::span<const std::size_t> examples, std::uint64_t seed) override {
    if (o_.before_loss) o_.before_loss(examples);
    LossSum sum = loss_of(examples, seed, 0);
    const double poison = poison_ != nullptr ? *poison_ : o_.poison;
    if (poison != 0.0) sum.loss = sum.loss + poison;
    return sum;
  }
  LossSum held_out_loss(std::span<const std::size_t> examples) override {
    if (o_.before_held_out_loss) o_.before_held_out_loss();
    LossSum sum = loss_of(examples, 99, o_.examples);
    if (o_.held_out_poison != nullptr) sum.loss = sum.loss + *o_.held_out_poison;
    return sum;
  }
  double flops(std::span<const std::size_t> examples) const override {
    return 6.0 * static_cast<double>(examples.size()) * static_cast<double>(in_.numel());
  }
  std::string fingerprint() const override { return o_.name; }
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override {
    std::vector<TensorView> views;
    std::size_t i = 0;
    for (const Parameter& p : parameters()) {
      const at::Tensor& t = values[i++];
      views.push_back({p.name, DType::kF32, t.sizes().vec(),
                       std::as_bytes(std::span(t.const_data_ptr<float>(),
                                               static_cast<std::size_t>(t.numel())))});
    }
    write_safetensors(folder / "model.safetensors", views,
                      {{"step", provenance.at("step").dump()}});
  }

 private:
  static at::Tensor normals(std::uint64_t seed, std::uint32_t example, std::int64_t n) {
    at::Tensor t = at::empty({n});
    RngKey{seed, example, 0, 0}.fill_normal(Purpose::kDraft,
                                            {t.data_ptr<float>(), static_cast<std::size_t>(n)});
    return t;
  }
  static at::Tensor weights(std::vector<std::int64_t> shape, std::uint32_t which) {
    return normals(7, which, shape[0] * shape[1]).view(shape) /
           std::sqrt(static_cast<double>(shape[1]));
  }

  LossSum loss_of(std::span<const std::size_t> examples, std::uint64_t seed, std::size_t first) {
    LossSum sum;
    std::vector<at::Tensor> x, y, w;
    for (const std::size_t e : examples) {
      const auto id = static_cast<std::uint32_t>(first + e);
      x.push_back(normals(1234, id, o_.inputs));
      y.push_back(x.back().sum().mul(0.7).sin() + normals(seed, id, 1).mul(0.05));
      w.push_back(at::full({1}, 1.0 + static_cast<double>(e % 3)));
      sum.weight += 1.0 + static_cast<double>(e % 3);
    }
    const at::Tensor hidden = at::linear(at::stack(x), in_, bias_).tanh();
    const at::Tensor error = (at::linear(hidden, out_).to(at::kFloat) - at::stack(y)).square();
    sum.loss = (error * at::stack(w)).sum();
    sum.tokens = static_cast<std::int64_t>(examples.size()) * 10;
    const double near = (error < 0.05).sum().item<double>();
    sum.figures = {{"near", near, static_cast<double>(examples.size())}};
    return sum;
  }

  Options o_;
  const double* poison_;
  at::Tensor in_, bias_, out_;
};

}  // namespace forerun::testing
