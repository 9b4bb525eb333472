#include "forerun/models/medusa/medusa_passes.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "forerun/models/medusa/four_bit_medusa.h"
#include "forerun/models/medusa/int8_medusa.h"

namespace forerun {
namespace {

// With tensor operations: used without int8, and as its reference.
class TensorMedusa : public MedusaPasses {
 public:
  explicit TensorMedusa(Medusa model)
      : MedusaPasses(model, Precision::kF32), model_(std::move(model)) {}

  at::Tensor forward(std::span<const MedusaInput> inputs) const override {
    const c10::InferenceMode no_autograd;
    const auto n = static_cast<std::int64_t>(inputs.size());
    const at::Tensor features = at::empty({n, config_.feature_width()}, at::kFloat);
    const at::Tensor newest = at::empty({n}, at::kLong);
    for (std::int64_t i = 0; i < n; ++i) {
      const MedusaInput& input = inputs[static_cast<std::size_t>(i)];
      std::copy_n(input.features, config_.feature_width(),
                  features.data_ptr<float>() + i * config_.feature_width());
      newest.data_ptr<std::int64_t>()[i] = input.newest;
    }
    const at::Tensor states = head_states(model_, features, newest);
    return head_logits(model_, states.view({-1, config_.width})).to(at::kFloat).contiguous();
  }

  std::int64_t weight_bytes() const noexcept override {
    Medusa m = model_;
    std::int64_t bytes = 0;
    for (const ModelWeight& w : weights(m)) bytes += static_cast<std::int64_t>(w.tensor->nbytes());
    return bytes;
  }

 private:
  Medusa model_;
};

}  // namespace

MedusaPasses::MedusaPasses(const Medusa& m, Precision precision)
    : config_(m.config), markov_(m.markov_w1, m.markov_w2, precision) {
  if (!m.draft_to_target.defined()) return;
  const at::Tensor ids = m.draft_to_target.contiguous();
  tokens_.assign(ids.const_data_ptr<std::int64_t>(),
                 ids.const_data_ptr<std::int64_t>() + ids.numel());
}

std::unique_ptr<MedusaPasses> MedusaPasses::make(Medusa model, Precision precision) {
  const MedusaConfig& c = model.config;
  const bool fits = std::max({c.inputs(), c.width, c.intermediate}) <= Int8Matrix::kMostInputs;
  if (precision == Precision::kInt8 && fits) return std::make_unique<Int8Medusa>(model);
  if (model.config.weight_bits == 4 && fits_four_bits(model)) model = rounded_to_four_bits(model);
  return std::make_unique<TensorMedusa>(std::move(model));
}

}  // namespace forerun
