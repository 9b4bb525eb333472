#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "forerun/models/int8_mlp.h"
#include "forerun/models/medusa/medusa_passes.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/norm.h"

namespace forerun {

/// Medusa heads on the int8 engine: one job of all threads a pass. Weights of 4 bits if they were
/// trained for it.
class Int8Medusa final : public MedusaPasses {
 public:
  explicit Int8Medusa(const Medusa& model);
  ~Int8Medusa() override;
  at::Tensor forward(std::span<const MedusaInput> inputs) const override;
  std::int64_t weight_bytes() const noexcept override;

 private:
  friend class Int8MedusaPass;
  struct Workspace;

  at::Tensor embedding_;  // bf16
  std::vector<RmsNorm> feature_norms_, head_norms_;
  RmsNorm embedding_norm_, mlp_norm_, norm_;
  Int8Matrix fc_, heads_, head_;
  Int8Mlp mlp_;
  std::unique_ptr<Workspace> workspace_;
  mutable std::mutex one_pass_;
};

}  // namespace forerun
