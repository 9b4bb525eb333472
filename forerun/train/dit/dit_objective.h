#pragma once

#include <memory>

#include "forerun/formats/labelled_images.h"
#include "forerun/models/dit/dit.h"
#include "forerun/train/dit/dit_training.h"
#include "forerun/train/objective.h"

namespace forerun {

/// A class-conditional DiT that learns to predict the noise of images: the mean squared error over
/// the pixels, times uniform, classes dropped for guidance (Peebles and Xie 2022, section 3.1; the
/// variance is not learned).
class DitObjective final : public Objective {
 public:
  /// @param training, held_out  square images of one size and the same classes; held_out may be
  /// empty
  /// @throws std::invalid_argument  images or classes that do not fit the model
  DitObjective(std::shared_ptr<Dit> model, LabelledImages training, LabelledImages held_out,
               const DitTraining& options);

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
  LossSum loss_of(const LabelledImages& images, std::span<const std::size_t> which,
                  std::uint64_t seed, double drop, bool flip) const;

  std::shared_ptr<Dit> model_;
  LabelledImages training_, held_out_;
  DitTraining options_;
};

}  // namespace forerun
