#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "forerun/models/dit/bf16_dit.h"
#include "forerun/models/dit/guided_dit.h"
#include "forerun/models/free/free_network.h"

namespace forerun {

/// A FREE network packed in bf16, as Bf16Dit is.
class Bf16Free {
 public:
  explicit Bf16Free(const FreeNetwork& network);
  GuidedOutput run(const DitRows& rows, const Guidance& guidance, const at::Tensor& features,
                   const at::Tensor& fresh) const;

 private:
  void begin(const float* x, const float* feature, const float* fresh, DitRoom& room,
             float* hidden) const;

  DitConfig config_;
  bool frozen_image_;
  at::Tensor positions_;
  Arena arena_;
  Bf16Patches patches_, fresh_;
  Bf16Matrix fuse_;
  Bf16Stack stack_;
};

/// A FREE network with guidance.
class GuidedFree {
 public:
  /// @param packed  the same network in bf16, used for passes; or null
  explicit GuidedFree(std::shared_ptr<const FreeNetwork> network,
                      std::shared_ptr<const Bf16Free> packed = nullptr)
      : network_(std::move(network)), packed_(std::move(packed)) {}

  const DitConfig& config() const noexcept { return network_->config; }
  bool frozen_image() const noexcept { return network_->frozen_image; }

  /// One pass over all rows.
  /// @param features  [rows, halves, tokens, hidden] float32: of the previous step
  /// @param fresh     [rows, channels, input, input] float32, if the network has a frozen image
  /// @throws std::invalid_argument  shapes that do not match, invalid classes or times
  GuidedOutput run(const DitRows& rows, const Guidance& guidance, const at::Tensor& features,
                   const at::Tensor& fresh) const;

 private:
  std::shared_ptr<const FreeNetwork> network_;
  std::shared_ptr<const Bf16Free> packed_;
};

}  // namespace forerun
