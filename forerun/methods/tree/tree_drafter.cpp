#include "forerun/methods/tree/tree_drafter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"
#include "forerun/methods/draft_budget.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/tree/keep_allowed.h"
#include "forerun/methods/tree/merge_children.h"

namespace forerun {
namespace {

constexpr double kLeastReach = 0.03;  // a row costs more than such a node gives

// How good the drafts are that were found before the network runs.
std::size_t situation_of(const TokenTree& tree) {
  if (tree.size() == 0) return 0;
  const double best = tree.node(1).reach;
  return best < 0.25 ? 1 : best < 0.5 ? 2 : best < 0.8 ? 3 : 4;
}
// P(reached) of the best node of a tree with the drafts of the network, a prior by situation.
constexpr std::array<double, 5> kPriors = {0.6, 0.6, 0.7, 0.8, 0.92};

// P(reached) of each drafted token, in the draft's order.
std::vector<double> reach_of(const TokenTree& tree, const TokenDraft& draft) {
  std::vector<std::size_t> nodes;
  std::vector<double> out;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const std::int32_t parent = draft.parent(i);
    const std::size_t above =
        parent < 0 ? TokenTree::kRoot : nodes[static_cast<std::size_t>(parent)];
    nodes.push_back(tree.child_of(above, draft.tokens[i]));
    out.push_back(tree.node(nodes.back()).reach);
  }
  return out;
}

// The drafted tokens on the way to a node, its own last.
std::vector<Token> path_to(const TokenTree& tree, std::size_t node) {
  std::vector<Token> out(tree.node(node).depth);
  for (; node != TokenTree::kRoot; node = tree.node(node).parent) {
    out[tree.node(node).depth - 1] = tree.node(node).token;
  }
  return out;
}

}  // namespace

TreeDrafter::TreeDrafter(std::vector<std::unique_ptr<TreeSource>> found,
                         std::unique_ptr<NetworkSource> network, DraftLength control,
                         std::size_t max_draft, Shape shape)
    : found_(std::move(found)),
      network_(std::move(network)),
      control_(std::move(control)),
      max_draft_(max_draft),
      shape_(shape),
      adaptive_(control_.adaptive()) {
  TreeKnowledge& known = control_.trees();
  const std::vector<TreeSource*> all = sources();
  for (std::size_t i = known.rates.size(); i < all.size(); ++i) {
    known.rates.push_back(all[i]->rates());
  }
  known.memories.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->remember(known.memories[i]);
  for (std::size_t i = known.queried.size(); i < kPriors.size(); ++i) {
    known.queried.emplace_back(kPriors[i]);
  }
  if (all.size() == 1) all[0]->alone();
}

std::vector<TreeSource*> TreeDrafter::sources() const {
  std::vector<TreeSource*> out;
  for (const auto& source : found_) out.push_back(source.get());
  if (network_) out.push_back(network_.get());
  return out;
}

std::span<const std::int64_t> TreeDrafter::features() const {
  return network_ ? network_->features() : std::span<const std::int64_t>();
}
std::int64_t TreeDrafter::state_width() const { return network_ ? network_->state_width() : 0; }
std::int64_t TreeDrafter::unreached_logits() const {
  std::int64_t out = 0;
  for (const TreeSource* source : sources()) out = std::max(out, source->unreached_logits());
  return out;
}

// The candidates of a source after the newest node, with what was learned of them.
void TreeDrafter::fill(TreeSource& source, std::size_t index, const Text& text, const RngKey* noise,
                       std::vector<TreeChild>& out) {
  const HitRates& rates = control_.trees().rates[index];
  const std::size_t from = out.size();
  source.children(out);
  for (std::size_t i = from; i < out.size(); ++i) {
    out[i].source = static_cast<std::uint8_t>(index);
    out[i].probability = text.bias[index].apply(rates.probability(out[i].cell));
    if (noise == nullptr || source.knows_noise()) continue;
    out[i].before = out[i].probability;
    out[i].noise = shared_noise(out[i].token, *noise);
    out[i].probability = control_.trees().noise.probability(out[i].before, out[i].noise);
  }
}

TokenTree TreeDrafter::grow(const TokenSequence& sequence, bool queried, GrowthLimit worth) {
  const Text& text = texts_[sequence.id()];
  const std::vector<TreeSource*> all = sources();
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < (queried ? all.size() : found_.size()); ++i) {
    if (all[i]->begin(sequence)) used.push_back(i);
  }
  const TokenTree::Limits limits{.nodes = draft_budget(sequence, max_draft_) > 0 ? max_draft_ : 0,
                                 .depth = draft_budget(sequence, max_draft_),
                                 .least = adaptive_ ? kLeastReach : 0.0};
  const bool noisy = noise_decides(sequence);
  const auto expand = [&](const TokenTree& tree, std::size_t node) {
    std::vector<TreeChild> children;
    const RngKey noise = sequence.key_at(sequence.tokens().size() + tree.node(node).depth);
    for (const std::size_t i : used) {
      if (node != TokenTree::kRoot) all[i]->add(tree.node(node).parent, tree.node(node).token);
      fill(*all[i], i, text, noisy ? &noise : nullptr, children);
    }
    keep_allowed(
        sequence, [&] { return path_to(tree, node); }, children,
        [](const TreeChild& c) { return c.token; });
    children = merge_children(children, agreement_of(queried));
    if (shape_ == Shape::kChain && children.size() > 1) {
      const auto best = std::max_element(
          children.begin(), children.end(), [](const TreeChild& a, const TreeChild& b) {
            return a.probability != b.probability ? a.probability < b.probability
                                                  : a.token > b.token;
          });
      children = {*best};
    }
    return children;
  };
  return TokenTree::grow(limits, expand, std::move(worth));
}

// Beside others the pass has more rows, whose cost each tree would have to know.
GrowthLimit TreeDrafter::worth(SequenceId id, std::size_t made) {
  return alone_ ? control_.growth_limit(max_draft_, texts_[id].companions, made) : GrowthLimit();
}

std::vector<TokenDraft> TreeDrafter::propose(std::span<TokenSequence* const> sequences,
                                             std::size_t other_rows) {
  planned_.clear();
  made_ = 0;
  alone_ = sequences.size() + other_rows == 1;
  for (const TokenSequence* sequence : sequences) {
    const SequenceId id = sequence->id();
    Planned planned{.id = id, .tree = grow(*sequence, false, worth(id, 0))};
    planned.reach = planned.tree.reaches();
    planned.situation = situation_of(planned.tree);
    planned_.push_back(std::move(planned));
  }
  if (network_ && !control_.measure_next()) query(sequences, to_query(sequences));
  std::vector<SequencePlan> plans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Planned& planned = planned_[i];
    plans.push_back({.id = planned.id,
                     .limit = planned.reach.size(),
                     .deterministic = true,
                     .remaining = sequences[i]->remaining(),
                     .companions = texts_[planned.id].companions,
                     .reach = planned.reach});
  }
  const auto lengths = control_.plan(plans, other_rows, made_);
  std::vector<TokenDraft> drafts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    drafts.push_back(planned_[i].tree.draft(lengths[i]));
    charge(planned_[i], drafts.back().size());
  }
  add_companions(sequences, drafts);
  return drafts;
}

// Tells the sources what checking the drafts costs that they alone have named.
void TreeDrafter::charge(const Planned& planned, std::size_t drafted) {
  std::array<std::size_t, kMostSources> alone{};
  for (std::size_t i = 1; i <= drafted; ++i) {
    const TokenTree::Node& node = planned.tree.node(i);
    for (const TreeChild& child : planned.tree.node(node.parent).children) {
      if (child.token != node.token) continue;
      if (child.second == 0.0) ++alone[child.source];
      break;
    }
  }
  const std::vector<TreeSource*> all = sources();
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (alone[s] > 0) all[s]->spent(planned.id, control_.checking_price(alone[s]));
  }
}

void TreeDrafter::add_companions(std::span<TokenSequence* const> sequences,
                                 std::span<const TokenDraft> drafts) {
  companions_.assign(sequences.size(), {});
  if (control_.measuring()) return;
  const std::vector<TreeSource*> all = sources();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceId id = sequences[i]->id();
    CompanionRows& rows = companions_[i];
    const std::vector<double> reach = reach_of(planned_[i].tree, drafts[i]);
    std::size_t planned = 0;
    const RowOffer offer = row_offer(control_, id, rows, planned, reach);
    for (std::size_t s = 0; s < all.size(); ++s) {
      planned_[i].first_companion[s] = rows.scored.size();
      all[s]->companions(*sequences[i], drafts[i], offer, rows);
      control_.add_rows(rows.rows() - planned);
      planned = rows.rows();
    }
    texts_[id].companions = rows.rows();
  }
}

void TreeDrafter::read(const TokenSequence& sequence, const HiddenStates& states) {
  if (network_) network_->read(sequence, states);
}

void TreeDrafter::observe(const TextRound& round) {
  const std::vector<TreeSource*> all = sources();
  for (std::size_t i = 0, at = 0; i < round.sequences.size(); ++i, ++at) {
    const TokenSequence& sequence = *round.sequences[i];
    // Sequences that were planned may have left the round.
    while (planned_[at].id != sequence.id()) ++at;
    judge(sequence, planned_[at], round.outcomes[i]);
    VerifiedDraft verified{
        .sequence = sequence,
        .text = sequence.tokens().first(sequence.tokens().size() - round.outcomes[i].emitted),
        .draft = round.drafts[i],
        .outcome = round.outcomes[i],
        .rows = round.verified,
        .index = i,
        .companions_ran = round.verified.companion_rows(i) > 0};
    for (std::size_t s = 0; s < all.size(); ++s) {
      verified.first_companion = planned_[at].first_companion[s];
      all[s]->observe(verified);
    }
    if (network_) network_->observe_states(sequence, round.verified.states(i));
  }
}

void TreeDrafter::judge(const TokenSequence& sequence, const Planned& planned,
                        const Outcome& outcome) {
  Text& text = texts_[sequence.id()];
  TreeKnowledge& known = control_.trees();
  const std::vector<TreeSource*> all = sources();
  const std::span<const Token> outputs = sequence.tokens().last(outcome.emitted);
  const auto teach = [&](const TreeChild& child, bool hit) {
    HitRates& rates = known.rates[child.source];
    text.bias[child.source].observe(rates.probability(child.cell), hit);
    rates.observe(child.cell, hit);
    if (child.before > 0.0) known.noise.observe(child.before, child.noise, hit);
  };
  // Beside the network other sources keep the tokens that it finds less likely: what they are worth
  // without it is taught by the tree from before it ran.
  if (planned.queried) {
    planned.found.judge(outputs, [&](const TreeChild& child, bool hit) {
      teach(child, hit);
      known.agreement.observe(child.first, child.second, hit);
    });
  }
  std::size_t hits = 0;
  planned.tree.judge(outputs, [&](const TreeChild& child, bool hit) {
    hits += hit ? 1 : 0;
    if (hit && hits <= outcome.accepted && child.second == 0.0) {
      all[child.source]->earned(sequence.id());
    }
    if (!planned.queried || child.source == found_.size()) teach(child, hit);
    agreement_of(planned.queried).observe(child.first, child.second, hit);
  });
  for (SequenceBias& bias : text.bias) bias.next_round();
}

void TreeDrafter::learn(const TextRound& round, const Timings& seconds, std::size_t other_rows) {
  PassSeen pass{.rows = round.sequences.size() + other_rows,
                .target_seconds = seconds.target,
                .drafted = made_,
                .drafter_seconds = seconds.drafter,
                .rest_seconds = seconds.rest};
  if (network_) {
    const Prefilled now = network_->prefilled();
    pass.read = now.tokens - prefilled_.tokens;
    pass.read_seconds = now.seconds - prefilled_.seconds;
    pass.drafter_seconds -= pass.read_seconds;
    prefilled_ = now;
  }
  std::vector<SequenceOutcome> seen;
  for (std::size_t i = 0, at = 0; i < round.sequences.size(); ++i, ++at) {
    const TokenSequence& sequence = *round.sequences[i];
    const Outcome& out = round.outcomes[i];
    while (planned_[at].id != sequence.id()) ++at;
    seen.push_back({.id = sequence.id(),
                    .deterministic = true,
                    .drafted = out.drafted,
                    .made = planned_[at].queried ? network_->made() : 0,
                    .tree = true,
                    .companions = round.verified.companion_rows(i),
                    .read = planned_[at].read,
                    .examined = out.examined,
                    .accepted = out.accepted,
                    .done = sequence.done()});
    pass.rows += out.drafted + seen.back().companions;
    pass.companions += seen.back().companions;
    if (sequence.done()) texts_.erase(sequence.id());
  }
  control_.observe(seen, pass);
}

void TreeDrafter::forget(SequenceId id) {
  for (TreeSource* source : sources()) source->forget(id);
  control_.forget(id);
  texts_.erase(id);
}

bool TreeDrafter::share(SequenceId from, SequenceId to, std::int64_t positions) {
  return network_ ? network_->share(from, to, positions) : true;
}

}  // namespace forerun
