#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/acceptance.h"
#include "forerun/core/draft_length.h"
#include "forerun/core/token_tree.h"
#include "forerun/methods/text/text_drafter.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// Drafts trees of chosen tokens, filled from all its sources by the learned probability that a
/// node is reached. Exact under every rule that draws the output from the target alone: greedy,
/// shared noise, and the draw y ~ p of deterministic drafts.
///
/// A round: sources that cost nothing grow a tree; if the expected outputs a second are higher with
/// the network's drafts, it runs and the tree is grown again from all sources; the controller takes
/// the first nodes of all trees that pay (DraftLength::plan). Then sources may add rows of their
/// own to the pass (TreeSource::companions), at the price that the controller names. Afterwards
/// every candidate of each node on the way of the outputs, in the tree or not, is counted as a hit
/// or a miss: where the network ran its own there, the other sources' in the tree from before.
class TreeDrafter final : public TextDrafter {
 public:
  enum class Shape : std::uint8_t { kTree, kChain };
  /// @param network    may be null
  /// @param max_draft  nodes of a tree at most
  /// @param shape      kChain: the likeliest path alone, for rules that take no trees
  TreeDrafter(std::vector<std::unique_ptr<TreeSource>> found,
              std::unique_ptr<NetworkSource> network, DraftLength control, std::size_t max_draft,
              Shape shape = Shape::kTree);

  std::span<const std::int64_t> features() const override;
  bool reads_whole_text() const override { return network_ && network_->reads_whole_text(); }
  std::int64_t state_width() const override;
  std::int64_t unreached_logits() const override;
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::size_t other_rows) override;
  std::span<const CompanionRows> companions() const override { return companions_; }
  void read(const TokenSequence& sequence, const HiddenStates& states) override;
  void observe(const TextRound& round) override;
  void learn(const TextRound& round, const Timings& seconds, std::size_t other_rows) override;
  void forget(SequenceId id) override;
  bool share(SequenceId from, SequenceId to, std::int64_t positions) override;
  const DraftLength* control() const override { return &control_; }

 private:
  static constexpr std::size_t kMostSources = 6, kFirstProbe = 8, kLastProbe = 256;

  struct Text {
    std::array<SequenceBias, kMostSources> bias;
    double scale = 1.0;          // of its queried trees, to those of all texts
    std::size_t queried = 0;     // trees
    std::size_t companions = 0;  // rows, in the round before
  };
  // The tree of a sequence in a round.
  struct Planned {
    SequenceId id = 0;
    TokenTree tree;
    std::vector<double> reach;
    std::size_t situation = 0;
    bool queried = false;
    TokenTree found;                                          // the tree before the network ran
    std::size_t read = 0;                                     // by the network before it drafted
    std::array<std::size_t, kMostSources> first_companion{};  // of each source, of those scored
  };

  std::vector<TreeSource*> sources() const;
  GrowthLimit worth(SequenceId id, std::size_t made);
  TokenTree grow(const TokenSequence& sequence, bool queried, GrowthLimit worth);
  Agreement& agreement_of(bool queried) {
    return queried ? control_.trees().agreement_with_network : control_.trees().agreement;
  }
  // noise: of the position, where it decides the output
  void fill(TreeSource& source, std::size_t index, const Text& text, const RngKey* noise,
            std::vector<TreeChild>& out);
  std::vector<std::size_t> to_query(std::span<TokenSequence* const> sequences);
  bool query_pays(const SequencePlan& sequence, const Planned& planned);
  bool probe_due();
  void query(std::span<TokenSequence* const> sequences, std::span<const std::size_t> which);
  void charge(const Planned& planned, std::size_t drafted);
  void add_companions(std::span<TokenSequence* const> sequences,
                      std::span<const TokenDraft> drafts);
  void judge(const TokenSequence& sequence, const Planned& planned, const Outcome& outcome);

  std::vector<std::unique_ptr<TreeSource>> found_;
  std::unique_ptr<NetworkSource> network_;
  DraftLength control_;
  std::size_t max_draft_;
  Shape shape_;
  bool adaptive_;
  std::unordered_map<SequenceId, Text> texts_;
  std::vector<Planned> planned_;
  std::vector<CompanionRows> companions_;  // of the round
  std::size_t made_ = 0;                   // tokens of the round
  Prefilled prefilled_;
  bool alone_ = false;                                       // the round has one sequence
  std::size_t since_query_ = 0, probe_after_ = kFirstProbe;  // rounds
  double unqueried_seconds_ = 0.0;
};

}  // namespace forerun
