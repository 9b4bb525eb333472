// The loss of a selector against a computation slot by slot, and its gradient against finite
// differences.
#include "forerun/train/dflash/selector_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

constexpr std::int64_t kRows = 6, kSelectorVocab = 12, kCandidates = 4;

struct Case {
  Case() {
    DFlashConfig c = small_dflash({{}});
    c.draft_vocab = kSelectorVocab;
    c.selector_rank = 5;
    c.selector_top_k = kCandidates;
    model = noisy_dflash(c, at::kDouble, 3);
    at::manual_seed(4);
    logits = at::randn({kRows, kSelectorVocab}, at::kDouble);
    hidden = at::randn({kRows, c.hidden}, at::kDouble);
    previous = at::tensor({49, 3, 0, 17, 3, 20}, at::kLong);
    targets.laws = at::softmax(at::randn({3, kSelectorVocab}, at::kDouble), 1);
    targets.law_of = {0, 2, 1, 1, 0, 2};
    targets.weight = {1.0F, 0.5F, 0.25F, 1.0F, 2.0F, 1.0F};
    targets.covered = at::tensor({0.9, 0.5, 0.7}, at::kDouble);
    targets.share = 0.3;
    // The first, second, ... best of its slot: the last three are no candidates.
    const at::Tensor order = std::get<1>(logits.sort(1, true));
    for (const std::int64_t rank : {0, 3, 1, 4, 7, 11}) {
      const auto row = static_cast<std::int64_t>(targets.label.size());
      targets.label.push_back(order[row][rank].item<std::int64_t>());
    }
  }
  SelectorLoss loss() const { return selector_loss(model, logits, hidden, previous, targets); }
  // The drafted candidates of a slot, weakest last, and the scores of any ids.
  std::vector<std::int64_t> drafted(std::int64_t row) const {
    const at::Tensor ids = std::get<1>(logits[row].topk(kCandidates));
    return {ids.const_data_ptr<std::int64_t>(), ids.const_data_ptr<std::int64_t>() + kCandidates};
  }
  double score(std::int64_t row, std::int64_t id) const {
    const at::Tensor state = at::mv(model.selector_projection, hidden[row]);
    const at::Tensor from = model.predecessors[previous[row].item<std::int64_t>()];
    return (logits[row][id] + (from * state * model.successors[id]).sum()).item<double>();
  }
  double law(std::int64_t row, std::int64_t id) const {
    return targets.laws[targets.law_of[static_cast<std::size_t>(row)]][id].item<double>();
  }

  DFlash model;
  at::Tensor logits, hidden, previous;
  MixedTargets targets;
};

double log_sum(const std::vector<double>& scores) {
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s);
  return std::log(sum);
}

TEST(SelectorLoss, IsTheCrossEntropyOverTheCandidates) {
  const Case c;
  const SelectorLoss have = c.loss();
  double want = 0.0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    std::vector<std::int64_t> ids = c.drafted(row);
    const auto scores = [&] {
      std::vector<double> out;
      for (const std::int64_t id : ids) out.push_back(c.score(row, id));
      return out;
    };
    // What it drafts knows nothing of the label.
    const std::vector<double> own = scores();
    const auto best = std::max_element(own.begin(), own.end()) - own.begin();
    EXPECT_EQ(have.best[row].item<std::int64_t>(), ids[static_cast<std::size_t>(best)]) << row;
    double overlap = 0.0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      overlap +=
          std::min(c.law(row, ids[i]) * c.targets.covered[c.targets.law_of[at]].item<double>(),
                   std::exp(own[i] - log_sum(own)));
    }
    EXPECT_NEAR(have.overlap[row].item<double>(), overlap, 1e-9) << row;

    const std::int64_t label = c.targets.label[at];
    if (std::find(ids.begin(), ids.end(), label) == ids.end()) ids.back() = label;
    const double all = log_sum(scores());
    double mass = 0.0, of_law = 0.0;
    for (const std::int64_t id : ids) {
      mass += c.law(row, id);
      of_law += c.law(row, id) * (all - c.score(row, id));
    }
    want += static_cast<double>(c.targets.weight[at]) *
            (0.7 * (all - c.score(row, label)) + 0.3 * of_law / mass);
  }
  EXPECT_NEAR(have.loss.item<double>(), want, 1e-6);
}

TEST(SelectorLoss, GradientsAreFiniteDifferences) {
  Case c;
  for (at::Tensor* t : {&c.logits, &c.hidden, &c.model.predecessors, &c.model.successors,
                        &c.model.selector_projection}) {
    t->requires_grad_(true);
    c.loss().loss.backward();
    const at::Tensor slope = t->grad().clone();
    EXPECT_GT(slope.abs().max().item<double>(), 1e-3);
    *t = t->detach();
    const at::Tensor flat = t->view(-1);
    for (std::int64_t i = 0; i < flat.numel(); i += 7) {
      constexpr double kStep = 1e-6;
      const at::Tensor at_i = flat.narrow(0, i, 1);
      at_i.add_(kStep);
      const double above = c.loss().loss.item<double>();
      at_i.sub_(2 * kStep);
      const double below = c.loss().loss.item<double>();
      at_i.add_(kStep);
      EXPECT_NEAR(slope.view(-1)[i].item<double>(), (above - below) / (2 * kStep), 1e-5) << i;
    }
  }
}

TEST(SelectorLoss, OfASingleCandidateIsNothing) {
  Case c;
  c.model.config.selector_top_k = 1;
  EXPECT_NEAR(c.loss().loss.item<double>(), 0.0, 1e-12);
}

}  // namespace
}  // namespace forerun
