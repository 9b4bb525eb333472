#pragma once

// A simulated machine, drafter and texts for the draft length controller: no clock, all seeded.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "forerun/core/draft_length.h"

namespace forerun::simulated {

// Position of a draft, on which its acceptance probability may depend.
struct Place {
  std::size_t sequence = 0, confidence_bin = 0, position = 0;
  std::size_t at = 0;  // outputs of the sequence so far
};

struct World {
  std::string name;
  bool deterministic = false;  // its drafts cost nothing and are point masses
  std::size_t sequences = 1, most = 8, outputs = 1200;
  std::function<double(std::size_t rows, std::size_t at)> pass;  // milliseconds
  double draft_fixed = 0.0;                                      // milliseconds
  std::function<double(std::size_t at)> draft_token;             // milliseconds
  std::function<double(const Place&)> kept;
  double spikes = 0.0;   // share of passes that take five times as long
  std::size_t cold = 0;  // first rounds, which do
  std::size_t confidence_bins = 1;
  bool measured = false;  // one pass of each size before the first round
  double poison = 1.0;    // a factor on those of 4 and 8 rows
};
inline void PrintTo(const World& w, std::ostream* out) { *out << w.name; }

inline double slope(std::size_t rows, double per_row) {
  return 10.0 * (1.0 + per_row * (static_cast<double>(rows) - 1.0));
}

struct Ran {
  double outputs = 0.0, ms = 0.0;
  struct Round {
    std::size_t at;
    double outputs, ms;
  };
  std::vector<Round> rounds;
  DraftLengthReport report;
  double per_ms() const { return outputs / ms; }
  // From `skip` rounds after the text reached `at`.
  double per_ms_after(std::size_t at, std::size_t skip) const {
    auto r = std::find_if(rounds.begin(), rounds.end(), [&](const Round& x) { return x.at >= at; });
    double n = 0.0, time = 0.0;
    for (r += static_cast<std::ptrdiff_t>(skip); r < rounds.end(); ++r) {
      n += r->outputs;
      time += r->ms;
    }
    return n / time;
  }
};

// One text: token t is at position t; a wrong draft is -1.
struct SimSequence {
  std::size_t at = 0, confidence_bin = 0;
  std::vector<Token> draft, outputs;
};

class Simulation {
 public:
  Simulation(const World& world, std::uint64_t seed)
      : w_(world), random_(seed), sequences_(world.sequences) {}

  // At most `most` drafts a sequence. Time is counted without noise; the controller sees it with
  // noise.
  Ran run(DraftLength control, std::size_t most) {
    Ran ran;
    while (sequences_[0].at < w_.outputs) {
      const std::size_t at = sequences_[0].at;
      propose(most);
      const auto lengths = control.plan(plans_);
      const std::size_t drafts = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
      std::vector<SequenceOutcome> seen;
      double outputs = 0.0;
      for (std::size_t i = 0; i < w_.sequences; ++i) {
        seen.push_back(verify(i, lengths[i]));
        outputs += static_cast<double>(sequences_[i].outputs.size());
      }
      const double pass = w_.pass(w_.sequences + drafts, at), draft = draft_ms(drafts, at);
      ran.outputs += outputs;
      ran.ms += pass + draft;
      ran.rounds.push_back({at, outputs, pass + draft});
      const double cold = ran.rounds.size() <= w_.cold ? 5.0 : 1.0;
      control.observe(seen, {.rows = w_.sequences + drafts,
                             .target_seconds = 1e-3 * pass * noise() * cold,
                             .drafted = w_.deterministic ? 0 : drafts,
                             .drafter_seconds = 1e-3 * draft * noise() * cold});
    }
    ran.report = control.report();
    return ran;
  }

 private:
  // A drafter without drafts to make takes a microsecond.
  double draft_ms(std::size_t drafts, std::size_t at) const {
    if (w_.deterministic) return w_.draft_fixed;
    if (drafts == 0) return 1e-3;
    return w_.draft_fixed + (w_.draft_token ? w_.draft_token(at) * static_cast<double>(drafts) : 0);
  }

  void propose(std::size_t most) {
    plans_.clear();
    for (std::size_t i = 0; i < w_.sequences; ++i) {
      SimSequence& sequence = sequences_[i];
      sequence.confidence_bin =
          std::uniform_int_distribution<std::size_t>(0, w_.confidence_bins - 1)(random_);
      sequence.draft.clear();
      for (std::size_t j = 0; j < w_.most; ++j) {
        const bool right = uniform() < w_.kept({i, sequence.confidence_bin, j, sequence.at});
        sequence.draft.push_back(right ? static_cast<Token>(sequence.at + j) : -1);
      }
      plans_.push_back({.id = static_cast<std::uint32_t>(i),
                        .limit = std::min(most, w_.most),
                        .confidence_bin = sequence.confidence_bin,
                        .deterministic = w_.deterministic});
    }
  }

  SequenceOutcome verify(std::size_t i, std::size_t length) {
    SimSequence& sequence = sequences_[i];
    SequenceOutcome seen{.id = static_cast<std::uint32_t>(i),
                         .confidence_bin = sequence.confidence_bin,
                         .deterministic = w_.deterministic,
                         .drafted = length,
                         .draft_confidence_bin = sequence.confidence_bin};
    sequence.outputs.clear();
    for (bool go_on = true; go_on;) {
      sequence.outputs.push_back(static_cast<Token>(sequence.at));
      go_on = seen.examined < length && sequence.draft[seen.examined] == sequence.outputs.back();
      if (seen.examined < length) {
        ++seen.examined;
        seen.accepted += go_on ? 1 : 0;
      }
      ++sequence.at;
    }
    if (w_.deterministic) {
      seen.draft = sequence.draft;
      seen.outputs = sequence.outputs;
    }
    return seen;
  }

  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double noise() {
    const double usual = std::exp(std::normal_distribution<double>(0.0, 0.05)(random_));
    return uniform() < w_.spikes ? 5.0 * usual : usual;
  }

  const World& w_;
  std::mt19937_64 random_;
  std::vector<SimSequence> sequences_;
  std::vector<SequencePlan> plans_;
};

inline Ran adaptive(const World& w, std::uint64_t seed) {
  DraftLength control;
  for (std::size_t m = 1; w.measured && m <= 32; m *= 2) {
    const double poison = m == 4 || m == 8 ? w.poison : 1.0;
    control.observe({}, {.rows = m, .target_seconds = 1e-3 * w.pass(m, 0) * poison});
  }
  return Simulation(w, seed).run(std::move(control), w.most);
}
inline Ran fixed(const World& w, std::size_t k, std::uint64_t seed) {
  return Simulation(w, seed).run(DraftLength({.adaptive = false}), k);
}

constexpr std::uint64_t kSeeds = 6;

inline double mean_of(const std::function<double(std::uint64_t)>& f) {
  double sum = 0.0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) sum += f(seed);
  return sum / static_cast<double>(kSeeds);
}
inline double adaptive_rate(const World& w) {
  return mean_of([&](std::uint64_t s) { return adaptive(w, s).per_ms(); });
}
inline double fixed_rate(const World& w, std::size_t k) {
  return mean_of([&](std::uint64_t s) { return fixed(w, k, s).per_ms(); });
}

// Models of cost (10 ms for one row) and of acceptance.
inline auto sloped(double per_row) {
  return [=](std::size_t rows, std::size_t) { return slope(rows, per_row); };
}
inline auto per_token(double ms) {
  return [=](std::size_t) { return ms; };
}
inline auto always(double p) {
  return [=](const Place&) { return p; };
}
inline auto fading(double p, double f) {
  return [=](const Place& at) { return p * std::pow(f, static_cast<double>(at.position)); };
}

}  // namespace forerun::simulated
