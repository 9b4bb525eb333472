#pragma once

#include <memory>

#include "forerun/formats/labelled_images.h"
#include "forerun/models/dit/bf16_dit.h"
#include "forerun/models/free/free_network.h"
#include "forerun/train/free/free_training.h"
#include "forerun/train/images/image_batch.h"
#include "forerun/train/objective.h"

namespace forerun {

/// A FREE drafter that learns the target's noise and feature one step after its input feature: mean
/// squared error of the noise, plus cosine and Smooth-L1 distance of the features
/// (arXiv:2511.20390, eq. 4 to 6). States are those of sampling: a noisy image, then steps of the
/// target. The target is not trained.
class FreeObjective final : public Objective {
 public:
  /// @throws std::invalid_argument  images that do not fit the target
  /// @param packed  the target in bf16, used for its passes; or null
  FreeObjective(std::shared_ptr<const Dit> target, std::shared_ptr<FreeNetwork> network,
                LabelledImages training, LabelledImages held_out, const FreeTraining& options,
                std::shared_ptr<const Bf16Dit> packed = nullptr);

  std::vector<Parameter> parameters() override;
  std::size_t size() const override { return static_cast<std::size_t>(training_.size()); }
  std::size_t held_out() const override { return static_cast<std::size_t>(held_out_.size()); }
  LossSum loss(std::span<const std::size_t> examples, std::uint64_t seed) override;
  LossSum held_out_loss(std::span<const std::size_t> examples) override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 private:
  // The target's output for a batch: noise, guided, and the features of both halves.
  struct Answer {
    at::Tensor noise;    // [batch, channels, side, side]
    at::Tensor feature;  // [halves * batch, tokens, hidden]: all with the class, all without
  };
  Answer ask(const at::Tensor& x, const at::Tensor& time, const at::Tensor& label) const;
  Answer say(const at::Tensor& x, const at::Tensor& feature, const at::Tensor& time,
             const at::Tensor& label, const at::Tensor& fresh) const;
  Guidance guidance() const noexcept { return {.scale = options_.guidance}; }
  LossSum loss_of(const LabelledImages& images, std::span<const std::size_t> which,
                  std::uint64_t seed, const NoiseOptions& noise) const;

  std::shared_ptr<const Dit> target_;
  std::shared_ptr<const Bf16Dit> packed_;
  std::shared_ptr<FreeNetwork> network_;
  LabelledImages training_, held_out_;
  FreeTraining options_;
};

}  // namespace forerun
