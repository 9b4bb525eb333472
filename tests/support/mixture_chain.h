#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "forerun/core/chain_sample.h"
#include "forerun/core/speculate.h"

namespace forerun::support {

/// How a mixture's chain is denoised, and how a draft of it is wrong.
struct MixtureOptions {
  std::size_t dim = 1, steps = 6;
  double bias = 0.0;     ///< of the predicted value's every coordinate
  double stretch = 1.0;  ///< of the standard deviations
  double pull = 0.0;     ///< of the token before on the modes
};

/// Two modes at +-(0.9, 0.5), of weights 0.35 and 0.65, denoised exactly, along the noise levels of
/// a cosine schedule. A conditional is the token before it.
class MixtureChain final : public ChainModel {
 public:
  explicit MixtureChain(const MixtureOptions& options) : options_(options) {
    const auto level = [&](std::size_t k) {  // alpha bar before inner step k
      const double u = 1.0 - static_cast<double>(k) / static_cast<double>(options_.steps);
      const double c = std::cos((0.02 + 0.97 * u) / 1.02 * 1.5707963);
      return c * c;
    };
    for (std::size_t k = 0; k < options_.steps; ++k) {
      const double ab = level(k), next = level(k + 1), alpha = ab / next, beta = 1.0 - alpha;
      levels_.push_back(ab);
      c1_.push_back(beta * std::sqrt(next) / (1.0 - ab));
      c2_.push_back((1.0 - next) * std::sqrt(alpha) / (1.0 - ab));
      const double spread = 0.1 * c1_.back() * c1_.back();  // of the predicted value
      sigmas_.push_back(options_.stretch * std::sqrt(beta * (1.0 - next) / (1.0 - ab) + spread));
    }
  }

  std::vector<Latent> means(std::span<const ChainRow> asked) override {
    ++calls;
    rows += asked.size();
    std::vector<Latent> out;
    for (const ChainRow& r : asked) out.push_back(mean(*r.state, r.step, before_[r.token]));
    return out;
  }
  std::span<const double> sigmas() const override { return sigmas_; }
  std::size_t dim() const override { return options_.dim; }

  /// A conditional: that of a token after `before`.
  ChainLaw after(const Latent& before) {
    before_.push_back(before);
    return {this, before_.size() - 1};
  }
  void forget() { before_.clear(); }

  Latent mean(const Latent& x, std::size_t step, const Latent& before) const {
    const double ab = levels_[step], root = std::sqrt(ab);
    const double variance = ab * kSpread * kSpread + 1.0 - ab;
    double near[2] = {std::log(0.35), std::log(0.65)};
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (int m = 0; m < 2; ++m) {
        const double d = static_cast<double>(x[i]) - root * mode(m, i, before);
        near[m] -= 0.5 * d * d / variance;
      }
    }
    const double weight = 1.0 / (1.0 + std::exp(near[1] - near[0]));
    Latent out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      double guess = options_.bias;
      for (int m = 0; m < 2; ++m) {
        const double centre = mode(m, i, before), share = m == 0 ? weight : 1.0 - weight;
        const double d = static_cast<double>(x[i]) - root * centre;
        guess += share * (centre + root * kSpread * kSpread / variance * d);
      }
      out[i] = static_cast<float>(c1_[step] * guess + c2_[step] * static_cast<double>(x[i]));
    }
    return out;
  }

  std::size_t calls = 0, rows = 0;

 private:
  static constexpr double kSpread = 0.35;
  double mode(int which, std::size_t i, const Latent& before) const {
    const double at = (i == 0 ? 0.9 : 0.5) * (which == 0 ? -1.0 : 1.0);
    return before.empty() ? at : at + options_.pull * std::tanh(static_cast<double>(before[i]));
  }

  MixtureOptions options_;
  std::vector<double> levels_, c1_, c2_, sigmas_;
  std::vector<Latent> before_;
};

/// The target of the loop: every token's law is that after the token before it.
struct MixtureTarget {
  MixtureChain* chain;

  struct Verified {
    std::vector<std::vector<ChainLaw>> laws;
    ChainConditional at(std::size_t sample, std::size_t step) const {
      return {.law = laws[sample].at(step)};
    }
  };
  Verified verify(std::span<ChainSample* const> samples, const std::vector<ChainDraft>& drafts) {
    Verified out;
    chain->forget();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto& made = samples[i]->values();
      out.laws.push_back({chain->after(made.empty() ? Latent() : made.back())});
      for (const ChainPath& p : drafts[i].paths) out.laws.back().push_back(chain->after(p.value()));
    }
    return out;
  }
  void keep(std::span<ChainSample* const>, const std::vector<ChainDraft>&,
            std::span<const Outcome>) const {}
};

/// Drafts `length` tokens with a mixture of its own.
struct MixtureDrafter {
  MixtureChain* chain;
  std::size_t length;

  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples) {
    chain->forget();
    std::vector<ChainDraft> out(samples.size());
    for (std::size_t j = 0; j < length; ++j) {
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const ChainSample& s = *samples[i];
        if (s.step() + j + 1 >= s.steps()) continue;
        const Latent before = j > 0                ? out[i].paths.back().value()
                              : s.values().empty() ? Latent()
                                                   : s.values().back();
        const FreeChain one{chain->after(before), s.key_at(s.step() + j), Purpose::kTarget};
        out[i].laws.push_back(one.law);
        out[i].paths.push_back(std::move(draw_chains({&one, 1}).front()));
      }
    }
    return out;
  }
  template <class Verified>
  void observe(std::span<ChainSample* const>, const std::vector<ChainDraft>&, const Verified&,
               std::span<const Outcome>) const {}
};

}  // namespace forerun::support
