#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "forerun/core/ngram_law.h"
#include "forerun/core/token.h"
#include "forerun/methods/diffuspec/path_search.h"
#include "forerun/models/diffusion_lm/diffusion_passes.h"

namespace forerun {

/// How many places a pass of the diffusion language model predicts.
enum class PlaceControl : std::uint8_t {
  kMeasured,  ///< all of its block; the controller of draft lengths keeps what pays
  kPaper,     ///< DraftWindow
  kFailFast,  ///< more after a block of which every prediction is confident. Source: FailFast,
              ///< arXiv:2512.20573
};

struct DiffuSpecOptions {
  PathSearchOptions search;  ///< without beams: the places' own predictions alone
  PlaceControl control = PlaceControl::kMeasured;
  std::size_t least = 0;     ///< places of a pass; 0: 20 of the paper, 10 of FailFast
  std::size_t most = 0;      ///< places of a round; 0: 30 and 60, or those of the block
  double confidence = 0.45;  ///< FailFast: of the least confident prediction of a block
  /// Tokens of the text that a network with a cache reads where it begins: the last ones. It keeps
  /// those that follow. Drafts hardly depend on what is further back, and a long prompt costs more
  /// to read than they save.
  std::size_t context = 32;
};

/// A diffusion language model that drafts for a target. What drafting needs of it are the laws of
/// the places after a text, which DiffusionPasses gives for networks of both kinds: those that keep
/// their text, and those that read it again in every pass.
/// Source: DiffuSpec, arXiv:2510.02358.
struct DiffuSpec {
  /// @param target_vocab  ids that the target scores
  /// @param named         ids of its tokenizer, if fewer: those beyond them are never drafted
  DiffuSpec(DiffusionLm model, std::int64_t target_vocab, std::int64_t named = 0)
      : network(std::move(model), named > 0 ? std::min(named, target_vocab) : target_vocab),
        vocab(target_vocab) {}

  bool searches() const noexcept { return options.search.beams > 0; }
  bool ends(Token token) const { return std::find(end.begin(), end.end(), token) != end.end(); }
  /// Whether the network keeps what it has read: else it reads the whole text in every pass.
  bool keeps() const noexcept { return network.config().attention == DiffusionAttention::kBlock; }
  /// options.context, as far as a quarter of the network's is left for what follows.
  std::size_t context() const {
    const auto all = static_cast<std::size_t>(network.context());
    return std::clamp<std::size_t>((all - std::min(all, most())) / 4 * 3, 1, options.context);
  }
  /// Places of a pass at most: what the network was trained for.
  std::size_t block() const {
    const auto trained = static_cast<std::size_t>(network.config().block);
    return trained > 0 ? trained : kAnyBlock;
  }
  /// Of the paper's and FailFast's controls; least within the block.
  std::size_t least() const {
    const std::size_t wanted = options.least > 0                         ? options.least
                               : options.control == PlaceControl::kPaper ? 20
                                                                         : 10;
    return std::min(wanted, block());
  }
  std::size_t most() const;

  DiffusionPasses network;
  std::int64_t vocab = 0;  ///< of the target
  std::vector<Token> end;  ///< tokens that end a text
  DiffuSpecOptions options;
  std::shared_ptr<const NgramLaw> proxy;  ///< null: trigrams of each text itself

 private:
  static constexpr std::size_t kAnyBlock = 32;
};

inline std::size_t DiffuSpec::most() const {
  switch (options.control) {
    case PlaceControl::kMeasured:
      return options.most > 0 ? std::min(options.most, block()) : block();
    case PlaceControl::kPaper:
      return std::max(least(),
                      std::min<std::size_t>(options.most > 0 ? options.most : 30, block()));
    case PlaceControl::kFailFast:
      return std::max(least(), options.most > 0 ? options.most : 60);
  }
  return block();
}

}  // namespace forerun
