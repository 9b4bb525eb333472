#include "forerun/core/draft_length.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace forerun {
namespace {

constexpr double kHopeless = 0.005;  // survival below which a draft is not worth a thought
constexpr std::size_t kProbe = 2;    // drafts
constexpr double kFewPasses = 3.0;
constexpr double kHearsay = 0.1;  // |log| of seconds

void check_grade(std::uint32_t request, std::size_t grade) {
  if (grade < kGrades) return;
  throw std::invalid_argument("draft length: request " + std::to_string(request) + " has grade " +
                              std::to_string(grade) + "; grades are 0 to 7");
}

}  // namespace

std::span<const std::uint32_t> DraftLength::plan(std::span<const LanePlan> lanes) {
  for (const LanePlan& lane : lanes) {
    check_grade(lane.request, lane.grade);
    if (lane.found && lane.origin == Origin::kSampled) {
      throw std::invalid_argument("draft length: request " + std::to_string(lane.request) +
                                  " has a sampled draft, to be cut by a plan made after it; plan "
                                  "before drafting");
    }
  }
  lengths_.assign(lanes.size(), 0);
  if (options_.adaptive) {
    adapt(lanes);
  } else {
    take_limits(lanes);
  }
  for (const std::uint32_t k : lengths_) {
    if (chosen_.size() <= k) chosen_.resize(k + 1, 0);
    ++chosen_[k];
  }
  return lengths_;
}

void DraftLength::take_limits(std::span<const LanePlan> lanes) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lengths_[i] = static_cast<std::uint32_t>(lanes[i].limit);
  }
}

void DraftLength::adapt(std::span<const LanePlan> lanes) {
  planned_rate_ = plain_rate_ = 0.0;
  probing_ = false;
  if (lanes.empty()) return;
  if (!pass_.known()) {  // nothing to compare with
    since_plain_ = 0;
    return;
  }
  collect(lanes);
  std::size_t take = best_prefix(lanes.size());
  if (take > 0 && plain_check_due(lanes.size())) {
    ++plain_checks_;
    take = 0;
    since_plain_ = 0;
    planned_rate_ = plain_rate_;
  } else if (take > 0) {
    ++since_plain_;
    since_drafts_ = 0;
    unprobed_seconds_ = 0.0;
    probe_after_ = std::max(kFirstProbe, probe_after_ / 2);
  } else {
    since_plain_ = 0;
    const bool possible = std::any_of(
        lanes.begin(), lanes.end(), [&](const LanePlan& l) { return may_probe(l, lanes.size()); });
    if (possible && probe_due(lanes.size())) return probe(lanes);
  }
  for (std::size_t c = 0; c < take; ++c) ++lengths_[candidates_[c].lane];
}

// Every draft any lane may have, the likeliest to be kept first. A lane's are in order, since each
// survives at most as often as the one before.
void DraftLength::collect(std::span<const LanePlan> lanes) {
  candidates_.clear();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LaneState& lane = lanes_[lanes[i].request];
    const bool found = lanes[i].found;
    if (!worth_reading(lanes[i], lane, lanes.size())) continue;
    // Seconds that the round may take for this lane's sake if none of its drafts is kept.
    const double most = round_seconds(lanes.size(), {}) +
                        plain_seconds(std::max(0.0, options_.credit + lane.saved), lanes.size());
    Drafts drafts;
    survivals(lanes[i], lane.tilt, [&](double survival) {
      drafts.add(found);
      if (round_seconds(lanes.size(), drafts) > most) return false;
      candidates_.push_back({survival, static_cast<std::uint32_t>(i),
                             static_cast<std::uint32_t>(drafts.all() - 1), found});
      return true;
    });
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    if (a.survival != b.survival) return a.survival > b.survival;
    return a.position != b.position ? a.position < b.position : a.lane < b.lane;
  });
}

// Hands the survival of a lane's drafts to `each`, in order, until it returns false.
template <class Each>
void DraftLength::survivals(const LanePlan& lane, const LaneTilt& tilt, Each&& each) const {
  Acceptance::Along rates = acceptance_.along(lane.grade);
  double survival = 1.0;
  for (std::size_t j = 0; j < lane.limit; ++j) {
    survival *= tilt.apply(rates.next());
    if (survival < kHopeless || !each(survival)) return;
  }
}

double DraftLength::promise(const LanePlan& lane) const {
  check_grade(lane.request, lane.grade);
  if (!pass_.known()) return 0.0;
  const auto state = lanes_.find(lane.request);
  double outputs = 1.0, best = 1.0 / round_seconds(1, {});
  Drafts drafts;
  survivals(lane, state == lanes_.end() ? LaneTilt() : state->second.tilt, [&](double survival) {
    drafts.add(lane.found);
    outputs += survival;
    best = std::max(best, outputs / round_seconds(1, drafts));
    return true;
  });
  return best;
}

// What so many outputs take without drafts: a round makes one for each lane.
double DraftLength::plain_seconds(double outputs, std::size_t lanes) const noexcept {
  return round_seconds(lanes, {}) * outputs / static_cast<double>(lanes);
}

bool DraftLength::worth_reading(const LanePlan& plan, const LaneState& lane,
                                std::size_t lanes) const noexcept {
  if (plan.found || plan.unread == 0) return true;
  const double outputs =
      options_.credit + lane.saved + options_.credit_share * static_cast<double>(plan.remaining);
  return read_.mean() * static_cast<double>(plan.unread) <= plain_seconds(outputs, lanes);
}

// How many of the candidates to take: the most outputs a second, if that is worth it.
std::size_t DraftLength::best_prefix(std::size_t lanes) {
  double outputs = static_cast<double>(lanes);
  plain_rate_ = planned_rate_ = outputs / round_seconds(lanes, {});
  Drafts drafts;
  double needed = plain_rate_ * (1.0 + options_.margin);
  std::size_t best = 0;
  for (std::size_t n = 1; n <= candidates_.size() && lanes + n <= pass_.explored(); ++n) {
    outputs += candidates_[n - 1].survival;
    drafts.add(candidates_[n - 1].found);
    const double rate = outputs / round_seconds(lanes, drafts);
    if (rate <= needed) continue;
    needed = planned_rate_ = rate;
    best = n;
  }
  return best;
}

bool DraftLength::plain_check_due(std::size_t lanes) const {
  return since_plain_ >= kPlainCheck ||
         (since_plain_ >= kEarlyCheck &&
          (pass_.hearsay(lanes) > kHearsay || pass_.seen(lanes) < kFewPasses));
}

bool DraftLength::probe_due(std::size_t lanes) {
  const double plain = round_seconds(lanes, {});
  ++since_drafts_;
  unprobed_seconds_ += plain;
  return since_drafts_ >= probe_after_ && options_.probe_share * unprobed_seconds_ >=
                                              round_seconds(lanes, {.asked = kProbe}) - plain;
}

bool DraftLength::may_probe(const LanePlan& plan, std::size_t lanes) {
  return plan.limit > 0 && worth_reading(plan, lanes_[plan.request], lanes);
}

// One lane after the other gets the probe.
void DraftLength::probe(std::span<const LanePlan> lanes) {
  std::size_t lane = probes_ % lanes.size();
  while (!may_probe(lanes[lane], lanes.size())) lane = (lane + 1) % lanes.size();
  lengths_[lane] = static_cast<std::uint32_t>(std::min(kProbe, lanes[lane].limit));
  ++probes_;
  probing_ = true;
  since_drafts_ = 0;
  unprobed_seconds_ = 0.0;
  probe_after_ = std::min(2 * probe_after_, kLastProbe);
}

double DraftLength::round_seconds(std::size_t lanes, Drafts drafts) const noexcept {
  return pass_.seconds(lanes + drafts.all()) + rest_.mean() +
         std::max(draft_.seconds(drafts.asked), no_draft_.mean());
}

void DraftLength::observe(std::span<const LaneSeen> lanes, const PassSeen& pass) {
  for (const LaneSeen& seen : lanes) {
    check_grade(seen.request, seen.grade);
    if (seen.accepted > seen.examined || seen.examined > seen.accepted + 1) {
      throw std::invalid_argument("draft length: " + std::to_string(seen.examined) +
                                  " drafts examined, " + std::to_string(seen.accepted) +
                                  " kept; all but at most the last examined are kept");
    }
    check_grade(seen.request, seen.draft_grade);
    if (!seen.draft.empty() && seen.draft_origin == Origin::kSampled) {
      throw std::invalid_argument(
          "draft length: a sampled draft to be judged by later outputs, which tell only whether a "
          "point mass would have been kept; leave it empty");
    }
  }
  pass_.observe(pass.rows, pass.target_seconds);
  rest_.observe(pass.rest_seconds);
  if (pass.read > 0) read_.observe(pass.read_seconds / static_cast<double>(pass.read));
  if (pass.drafted == 0) {
    no_draft_.observe(pass.drafter_seconds);
  } else {
    draft_.observe(pass.drafted, pass.drafter_seconds);
  }
  for (const LaneSeen& seen : lanes) {
    if (probing_ && seen.accepted > 0) probe_after_ = kFirstProbe;  // good news: look again soon
    learn(seen);
  }
  settle(lanes);
  acceptance_.next_round();
}

// Pays in what drafts won and draws what they cost, each lane's part of it.
void DraftLength::settle(std::span<const LaneSeen> lanes) {
  Drafts drafts;
  for (const LaneSeen& seen : lanes) drafts.add(seen.found, seen.drafted);
  const double output = plain_seconds(1.0, lanes.size());
  const double plain = round_seconds(lanes.size(), {});
  const double checked = round_seconds(lanes.size(), {.found = drafts.all()});
  const auto each = [](double seconds, std::size_t n) {
    return n > 0 ? seconds / static_cast<double>(n) : 0.0;
  };
  const double checking = each(checked - plain, drafts.all());
  const double making = each(round_seconds(lanes.size(), drafts) - checked, drafts.asked);
  for (const LaneSeen& seen : lanes) {
    if (seen.done) {
      lanes_.erase(seen.request);
      continue;
    }
    const double spent =
        static_cast<double>(seen.drafted) * (checking + (seen.found ? 0.0 : making));
    const double lost = spent > 0.0 ? spent / output : 0.0;
    const double kept = static_cast<double>(seen.accepted);
    lanes_[seen.request].saved += kept - lost + options_.credit_share * (1.0 + kept);
  }
}

void DraftLength::learn(const LaneSeen& seen) {
  LaneState& lane = lanes_[seen.request];
  const auto score = [&](std::size_t grade, std::size_t position, bool kept) {
    lane.tilt.observe(acceptance_.probability(grade, position), kept);
    acceptance_.observe(grade, position, kept);
  };
  lane.shadow.advance(seen.outputs, score);
  for (std::size_t j = 0; j < seen.examined; ++j) score(seen.grade, j, j < seen.accepted);
  if (!seen.found) {  // it might have been used
    lane.shadow.add(seen.draft_grade, seen.draft, 0, seen.outputs, score);
  } else if (seen.examined == seen.accepted && seen.accepted <= seen.outputs.size()) {
    // It goes on behind what was planned of it, all of which was kept.
    lane.shadow.add(seen.draft_grade, seen.draft, seen.accepted,
                    seen.outputs.subspan(seen.accepted), score);
  }
  lane.tilt.next_round();
}

DraftLengthReport DraftLength::report() const {
  DraftLengthReport r{.pass = pass_.curve(),
                      .draft_fixed_seconds = draft_.fixed(),
                      .draft_token_seconds = draft_.per_token(),
                      .rest_seconds = rest_.mean(),
                      .lengths = lengths_,
                      .planned_per_second = planned_rate_,
                      .plain_per_second = plain_rate_,
                      .chosen = chosen_,
                      .probes = probes_,
                      .plain_checks = plain_checks_};
  if (draft_.seconds(1) == 0.0) r.draft_fixed_seconds = no_draft_.mean();  // never asked
  for (std::size_t g = 0; g < kGrades; ++g) {
    for (std::size_t j = 0; j < Acceptance::kPositions; ++j) {
      const double examined = acceptance_.cell(g, j).examined;
      if (examined < 0.5) continue;
      r.acceptance.push_back({g, j, acceptance_.probability(g, j), examined});
    }
  }
  return r;
}

void cut(TokenDraft& draft, std::size_t length) {
  if (length >= draft.size()) return;
  if (draft.origin == Origin::kSampled) {
    throw std::invalid_argument(
        "cut: a sampled draft; plan its length before it is drawn, or the kept tokens no longer "
        "have the drafter's law");
  }
  draft.tokens.resize(length);
  if (draft.laws.size() > length) {
    draft.laws.erase(draft.laws.begin() + static_cast<std::ptrdiff_t>(length), draft.laws.end());
  }
}

}  // namespace forerun
