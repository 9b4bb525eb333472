#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence_id.h"

namespace forerun {

/// The seconds of rounds, held back until no plan that uses them can bias an output.
///
/// Why. A step's noise depends on its position, so the noise of a discarded draft is used again
/// when its step is decided. The output of a step has the target's law if its decision (whether it
/// is drafted, in which round, with what mean) is independent of the step's noise. Means are
/// (LatentDrafter), and so are outcomes of drafts: they depend on emitted steps (those of a block
/// rule do after LatentRule::settle). Seconds need not be: a pass reads states that are later
/// discarded, and its time may depend on them.
///
/// How. A round that drafts n states of a sample from step s on uses noise of steps below s + n.
/// Its seconds are released once all its samples have emitted these steps, and rounds are released
/// in order. So plans depend only on rounds whose noise has been used up, that is on emitted steps
/// and on the machine. The order covers the effects of one pass on the time of the next. A round
/// whose drafts are all kept is released at once, any other as soon as its samples have emitted its
/// steps.
class HeldCosts {
 public:
  /// Stores the cost of the round.
  template <class Round>
  void add(const PassSeen& cost, const Round& round) {
    held_.push_back({cost, {}});
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const auto& sample = *round.sequences[i];
      held_.back().until[sample.id()] =
          sample.step() - round.outcomes[i].emitted + round.drafts[i].size();
    }
  }

  /// A sample was given up: the seconds of its rounds are never released.
  void forget(SequenceId id) {
    std::erase_if(held_, [&](const Held& h) { return h.until.contains(id); });
  }

  /// The released costs, in the order of the rounds.
  template <class Sample>
  std::vector<PassSeen> release(std::span<Sample* const> samples) {
    for (const Sample* sample : samples) {
      for (Held& h : held_) {
        const auto at = h.until.find(sample->id());
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
    std::map<SequenceId, std::size_t> until;  // the step to be reached
  };
  std::deque<Held> held_;
};

}  // namespace forerun
