#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "forerun/core/draft_length.h"

namespace forerun {

/// The seconds of rounds, held back until no plan that knows them can bias an output.
///
/// Why. A step's noise belongs to its position, so noise of a discarded draft is used again when
/// its step is decided. The output of a step keeps the target's law if everything that decides it
/// (whether it is drafted, in which round, with what mean) is independent of the step's noise.
/// Means are (LatentDrafter), and outcomes of drafts are: they depend on steps that were emitted.
/// Seconds need not be: a pass reads states that are discarded, and its time may depend on what it
/// reads.
///
/// How. A round that drafts n states of a sample from step s on uses noise of steps below s + n.
/// Its seconds are released once every sample of it has emitted all of those steps, and rounds are
/// released in their order. So whatever plans know at any time comes of rounds whose noise has all
/// been used up: a plan is a function of emitted steps and of the world outside. The order covers
/// what a pass may leave behind in the machine for the next. A round whose drafts are all kept is
/// released at once, any other as soon as its samples have passed it.
class HeldCosts {
 public:
  /// Holds what the round cost.
  template <class Round>
  void add(const PassSeen& cost, const Round& round) {
    held_.push_back({cost, {}});
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const auto& sample = *round.sequences[i];
      held_.back().until[sample.request()] =
          sample.step() - round.outcomes[i].emitted + round.drafts[i].size();
    }
  }

  /// What may be known now, in the order of the rounds.
  template <class Sample>
  std::vector<PassSeen> release(std::span<Sample* const> samples) {
    for (const Sample* sample : samples) {
      for (Held& h : held_) {
        const auto at = h.until.find(sample->request());
        if (at != h.until.end() && at->second <= sample->step()) h.until.erase(at);
      }
    }
    std::vector<PassSeen> out;
    for (; !held_.empty() && held_.front().until.empty(); held_.pop_front()) {
      out.push_back(held_.front().cost);
    }
    return out;
  }

 private:
  struct Held {
    PassSeen cost;
    std::map<std::uint32_t, std::size_t> until;  // by request: the step that has to be reached
  };
  std::deque<Held> held_;
};

}  // namespace forerun
