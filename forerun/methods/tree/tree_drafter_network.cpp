// When the network of a tree drafter runs, and what its runs teach.
#include <algorithm>
#include <utility>
#include <vector>

#include "forerun/methods/draft_budget.h"
#include "forerun/methods/tree/tree_drafter.h"

namespace forerun {
namespace {

constexpr double kProbeShare = 0.01;   // of the time, for runs of the network that only test it
constexpr double kScaleMemory = 16.0;  // trees

}  // namespace

// The sequences for which the network runs.
std::vector<std::size_t> TreeDrafter::to_query(std::span<TokenSequence* const> sequences) {
  std::vector<std::size_t> which, possible;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& sequence = *sequences[i];
    const NetworkSource::State state = network_->state(sequence);
    if (draft_budget(sequence, max_draft_) == 0 || !state.ready) continue;
    const SequencePlan plan{.id = sequence.id(),
                            .limit = ReachCurve::kNodes,
                            .unread = state.unread,
                            .remaining = sequence.remaining()};
    // Probes too: they would read a long prompt piece by piece.
    if (adaptive_ && !control_.worth_reading(plan, network_->made())) continue;
    possible.push_back(i);
    if (!adaptive_ || query_pays(plan, planned_[i])) which.push_back(i);
  }
  if (!which.empty()) {
    since_query_ = 0;
    unqueried_seconds_ = 0.0;
    probe_after_ = std::max(kFirstProbe, probe_after_ / 2);
  } else if (!possible.empty() && probe_due()) {
    which.push_back(possible[control_.report().probes % possible.size()]);
  }
  return which;
}

// Whether the expected outputs a second are higher with a run of the network.
bool TreeDrafter::query_pays(const SequencePlan& sequence, const Planned& planned) {
  if (!control_.affords(sequence, network_->made())) return false;
  const ReachCurve& curve = control_.trees().queried[planned.situation];
  const std::vector<double> expected = curve.scaled(texts_[planned.id].scale);
  return control_.best_throughput(expected, network_->made()) >
         control_.best_throughput(planned.reach, 0);
}

bool TreeDrafter::probe_due() {
  ++since_query_;
  unqueried_seconds_ += control_.plain_round_seconds();
  if (since_query_ < probe_after_ ||
      kProbeShare * unqueried_seconds_ < control_.making_seconds(network_->made())) {
    return false;
  }
  since_query_ = 0;
  unqueried_seconds_ = 0.0;
  probe_after_ = std::min(2 * probe_after_, kLastProbe);
  return true;
}

void TreeDrafter::query(std::span<TokenSequence* const> sequences,
                        std::span<const std::size_t> which) {
  if (which.empty()) return;
  std::vector<const TokenSequence*> queried;
  for (const std::size_t i : which) {
    planned_[i].read = network_->state(*sequences[i]).unread;
    queried.push_back(sequences[i]);
  }
  network_->query(queried);
  for (const std::size_t i : which) {
    Planned& planned = planned_[i];
    planned.read -= std::min(planned.read, network_->state(*sequences[i]).unread);
    if (!network_->begin(*sequences[i])) continue;
    made_ += network_->made();
    planned.queried = true;
    planned.found = std::move(planned.tree);
    planned.tree = grow(*sequences[i], true, worth(planned.id, network_->made()));
    planned.reach = planned.tree.reaches();
    ReachCurve& curve = control_.trees().queried[planned.situation];
    double sum = 0.0;
    for (const double reach : planned.reach) sum += reach;
    Text& text = texts_[planned.id];
    if (curve.sum() > 0.0) {
      text.scale += (std::clamp(sum / curve.sum(), 0.25, 4.0) - text.scale) / kScaleMemory;
    }
    curve.observe(planned.reach, text.queried++);
  }
}

}  // namespace forerun
