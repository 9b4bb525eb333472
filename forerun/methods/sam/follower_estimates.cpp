#include "forerun/methods/sam/follower_estimates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr std::size_t kEstimateLengths = 6, kEstimateRanks = 3;
constexpr std::size_t kEstimateKinds = 2;  // plain, weighed by noise
// Upper bounds of an estimate's bins.
constexpr std::array kEstimateBounds = {0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4,
                                        0.55, 0.7,  0.82, 0.9,  0.95, 0.98};
constexpr std::size_t kEstimateBins = kEstimateBounds.size() + 1;

// An end of 1, 2, 3, 4 to 5, 6 to 9, more tokens.
std::size_t bin_of_length(std::size_t length) {
  return length < 4 ? length - 1 : length < 6 ? 3 : length < 10 ? 4 : 5;
}

// Subtracted from the count of every follower of an end, for what did not follow it yet.
double discount_of(std::size_t length) {
  constexpr std::array<double, kEstimateLengths> kDiscounts = {0.9, 0.85, 0.8, 0.7, 0.5, 0.3};
  return kDiscounts[bin_of_length(length)];
}

// The followers of all ends of a text.
class EstimateSum {
 public:
  void add(Token token, double probability) {
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(size_);
    const auto at =
        std::find_if(all_.begin(), end, [&](const auto& e) { return e.token == token; });
    if (at != end) {
      at->probability += probability;
    } else if (size_ < all_.size()) {
      all_[size_++] = {token, probability};
    }
  }
  FollowerEstimates best(std::size_t length, std::size_t most) {
    FollowerEstimates out{.best = all_, .size = size_, .length = length};
    out.keep_best(most);
    return out;
  }

 private:
  std::array<FollowerEstimates::Estimate, FollowerEstimates::kAll> all_{};
  std::size_t size_ = 0;
};

}  // namespace

void FollowerEstimates::keep_best(std::size_t most) {
  const std::size_t kept = std::min(size, most);
  std::partial_sort(
      best.begin(), best.begin() + static_cast<std::ptrdiff_t>(kept),
      best.begin() + static_cast<std::ptrdiff_t>(size), [](const Estimate& a, const Estimate& b) {
        return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
      });
  size = kept;
}

FollowerEstimates estimate_followers(const CorpusIndex& index, std::span<const Token> text,
                                     std::size_t most) {
  constexpr std::size_t kEnds = 12;
  constexpr double kLeastWeight = 0.01;
  CorpusIndex::Match match = index.longest(text);
  const std::size_t length = match.length;
  EstimateSum sum;
  double weight = 1.0;  // of what longer ends leave
  for (std::size_t i = 0; i < kEnds && match.length > 0 && weight >= kLeastWeight;
       ++i, match = index.shorter(match)) {
    const CorpusIndex::Followers followers = index.followers(match);
    const double discount = discount_of(match.length), total = match.occurrences();
    for (const CorpusIndex::Follower& f : followers.all()) {
      sum.add(f.token, weight * (f.count - discount) / total);
    }
    weight *= discount * followers.distinct / total;
  }
  return sum.best(length, most);
}

void weigh_by_noise(FollowerEstimates& estimates, float temperature, const RngKey& position) {
  // What a corpus of answers at temperatures from 0 to 0.7 tells of log p.
  const double sharpness = 0.7 / static_cast<double>(temperature);
  // Of the differences of log estimates from those of log p, as of a logistic law's scale: drafts
  // of six tokens at T = 0.7 are kept best with 1.8 (tried: 0.6 to 4).
  constexpr double kError = 1.8, kLeastRest = 1e-3;
  const std::span<FollowerEstimates::Estimate> all(estimates.best.data(), estimates.size);
  std::array<double, FollowerEstimates::kAll> scores{};
  double rest = 1.0, most = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    rest -= all[i].probability;
    scores[i] = sharpness * std::log(all[i].probability) + shared_noise(all[i].token, position);
    most = std::max(most, scores[i]);
  }
  const double rest_score = sharpness * std::log(std::max(rest, kLeastRest));
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].probability = std::exp((scores[i] - most) / kError);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double beats_rest = std::exp(-std::exp(rest_score - scores[i]));
    all[i].probability *= beats_rest / sum;
  }
  estimates.keep_best(FollowerEstimates::kMost);
}

HitRates EstimateCells::rates() {
  std::vector<double> priors;
  for (std::size_t kind = 0; kind < kEstimateKinds * kEstimateLengths; ++kind) {
    for (std::size_t bin = 0; bin < kEstimateBins; ++bin) {
      const double low = bin == 0 ? 0.0 : kEstimateBounds[bin - 1];
      const double high = bin < kEstimateBounds.size() ? kEstimateBounds[bin] : 1.0;
      priors.push_back((low + high) / 2.0);
    }
  }
  return {priors.size() * kEstimateRanks, priors};
}

HitRates::Cell EstimateCells::cell(std::size_t length, double probability, std::size_t rank,
                                   bool weighed) {
  const auto bin = static_cast<std::size_t>(
      std::upper_bound(kEstimateBounds.begin(), kEstimateBounds.end(), probability) -
      kEstimateBounds.begin());
  const std::size_t kind = (weighed ? kEstimateLengths : 0) + bin_of_length(length);
  const std::size_t group = kind * kEstimateBins + bin;
  return {static_cast<std::uint16_t>(group * kEstimateRanks + std::min(rank, kEstimateRanks - 1)),
          static_cast<std::uint16_t>(group)};
}

}  // namespace forerun
