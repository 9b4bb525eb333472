#pragma once

#include <memory>
#include <optional>

#include "forerun/models/mar/mar.h"
#include "forerun/train/mar/mar_images.h"
#include "forerun/train/objective.h"

namespace forerun {

/// What the loss consists of.
struct MarLoss {
  std::int64_t draws = 4;
  double drop = 0.1;
  bool flip = true;
  double distill = 0.0;  ///< share of the distance to a target's prediction
};

/// A class-conditional network over image tokens that learns what its head should predict: the mean
/// squared error of noisy tokens at uniform times, each given the true tokens before it, or in the
/// masked form that of unknown tokens given the known ones (Li et al. 2024, arXiv:2406.11838,
/// section 3). With a target, which it is to draft for, also the
/// distance to the target's prediction from the same noisy token and the same tokens before it.
class MarObjective final : public Objective {
 public:
  /// @param training, held_out  of one size and the same classes; held_out may be empty
  /// @param target              null: learns from the data alone
  /// @throws std::invalid_argument  images or classes that do not fit the model, or a target that
  /// it cannot draft for
  MarObjective(std::shared_ptr<Mar> model, MarImages training, MarImages held_out,
               const MarLoss& loss, std::shared_ptr<const Mar> target = nullptr);

  std::vector<Parameter> parameters() override;
  std::size_t size() const override { return static_cast<std::size_t>(training_.size()); }
  std::size_t held_out() const override;
  LossSum loss(std::span<const std::size_t> examples, std::uint64_t seed) override;
  LossSum held_out_loss(std::span<const std::size_t> examples) override;
  double flops(std::span<const std::size_t> examples) const override;
  std::string fingerprint() const override;
  /// Writes the network with its calibration, or its target's.
  void save(const std::filesystem::path& folder, std::span<const at::Tensor> values,
            const nlohmann::json& provenance) override;

 private:
  LossSum loss_of(const MarImages& images, std::span<const std::size_t> which, std::uint64_t seed,
                  double drop, bool flip) const;

  std::shared_ptr<Mar> model_;
  MarImages training_, held_out_;
  MarLoss options_;
  std::shared_ptr<const Mar> target_;
};

}  // namespace forerun
