#pragma once

#include <memory>

#include "forerun/formats/labelled_images.h"
#include "forerun/models/classifier/classifier.h"
#include "forerun/train/classifier/classifier_training.h"
#include "forerun/train/images/image_batch.h"
#include "forerun/train/objective.h"

namespace forerun {

/// A classifier that learns the classes of images: cross entropy with smoothed labels (Szegedy et
/// al. 2016, arXiv:1512.00567, section 7) over flipped and shifted images. Held-out images are
/// unchanged, with unsmoothed labels; the log shows the accuracy on both.
class ClassifierObjective final : public Objective {
 public:
  /// @param held_out  may be empty
  /// @throws std::invalid_argument  images or classes that do not fit the model, no training images
  ClassifierObjective(std::shared_ptr<Classifier> model, LabelledImages training,
                      LabelledImages held_out, const ClassifierTraining& options);

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
  LossSum loss_of(const at::Tensor& x, const at::Tensor& labels, double smoothing) const;

  std::shared_ptr<Classifier> model_;
  LabelledImages training_, held_out_;
  ClassifierTraining options_;
};

ImageShape shape_of(const ClassifierConfig& config);

}  // namespace forerun
