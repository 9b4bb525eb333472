#include "forerun/train/dflash/selector_loss.h"

#include <ATen/ATen.h>

#include "forerun/tensor/ids.h"

namespace forerun {
namespace {

constexpr double kNever = -1e9;  // a score; finite, so that a law of zero times it is zero

at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

}  // namespace

SelectorLoss selector_loss(const DFlash& model, const at::Tensor& logits, const at::Tensor& hidden,
                           const at::Tensor& previous, const MixedTargets& t) {
  const std::int64_t k = model.config.selector_top_k;
  const at::Device device = logits.device();
  const at::Tensor label = ids_on(device, t.label).unsqueeze(1);
  const at::Tensor law_of = ids_on(device, t.law_of).unsqueeze(1);
  const at::Tensor drafted = std::get<1>(logits.detach().topk(k, 1));  // [rows, k], weakest last
  const at::Tensor is_label = drafted.eq(label), found = is_label.any(1, true);
  const at::Tensor candidates = at::cat({drafted, label}, 1);
  const at::Tensor scores = wide(logits.gather(1, candidates)) +
                            wide(transition_scores(model, hidden, previous, candidates));
  // The law of every column, as a flat index: rows share laws.
  const at::Tensor laws =
      at::take(t.laws, law_of * t.laws.size(1) + candidates).to(scores.scalar_type());

  // The label's own column counts where it is no candidate, in place of the weakest.
  const at::Tensor left_out =
      at::cat({at::zeros_like(found).expand({-1, k - 1}), found.logical_not(), found}, 1);
  const at::Tensor log_q = at::log_softmax(scores.masked_fill(left_out, kNever), 1);
  const at::Tensor column = at::where(found, is_label.to(at::kLong).argmax(1, true), k);
  const at::Tensor token = log_q.gather(1, column).squeeze(1).neg();
  const at::Tensor law = laws.masked_fill(left_out, 0.0);
  const at::Tensor all = law.sum(1, true).clamp_min(1e-30);
  const at::Tensor of_law = (law / all * log_q).sum(1).neg();
  const at::Tensor weight = at::tensor(t.weight, at::kFloat).to(device, scores.scalar_type());
  const at::Tensor loss = (token * (1.0 - t.share) + of_law * t.share) * weight;

  const at::Tensor own = scores.detach().narrow(1, 0, k);
  at::Tensor kept = laws.narrow(1, 0, k);
  if (t.covered.defined()) kept = kept * t.covered.index_select(0, law_of.squeeze(1)).unsqueeze(1);
  return {.loss = loss.sum(),
          .overlap = at::minimum(kept, own.softmax(1)).sum(1),
          .best = drafted.gather(1, own.argmax(1, true)).squeeze(1)};
}

}  // namespace forerun
