#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "forerun/models/dflash/dflash_passes.h"
#include "forerun/models/int8_block.h"
#include "forerun/tensor/kv_cache.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {

/// A DFlash network in int8. Context rows and slots of all sequences share one pass, so every
/// weight is read once. A sequence's output does not depend on the other sequences of the pass, bit
/// for bit.
class Int8DFlash : public DFlashPasses {
 public:
  explicit Int8DFlash(const DFlash& model);
  ~Int8DFlash() override;

  std::unique_ptr<DFlashContext> make_context() const override;
  Blocks forward(std::span<const BlockSpan> sequences) const override;
  std::int64_t weight_bytes() const noexcept override;

 private:
  friend class Int8DFlashPass;
  void pack(const DFlash& model, bool four_bits);
  std::shared_ptr<KvPool> pool_ = std::make_shared<KvPool>();  // of all contexts
  struct Workspace;

  at::Tensor embedding_;  // [vocab, hidden] bf16
  at::Tensor mask_;       // [hidden] float32
  RmsNorm hidden_norm_, norm_;
  Int8Matrix fc_, slot_state_, head_, states_;  // states_: of slot_projection
  std::vector<Int8Block> layers_;
  RowPlan block_;  // of the slots: a chain, one group
  std::unique_ptr<Workspace> workspace_;
  mutable std::mutex one_pass_;
};

}  // namespace forerun
