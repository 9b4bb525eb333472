#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/text/logit_mix.h"
#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Rows that a drafter adds to the target's pass over the draft of one sequence. After the pass it
/// gets their logits; their keys and values are never kept. They see the text, the drafted tokens
/// that they follow, each other as parents and groups say, and nobody else sees them.
struct CompanionRows {
  static constexpr std::int32_t kBeforeNewest = -2;
  std::vector<Token> tokens;  ///< [rows]
  /// [rows]: what each follows: -1 the text, below draft.size() a drafted token, draft.size() + j
  /// row j of these, an earlier one; kBeforeNewest: the text without its newest token.
  std::vector<std::int32_t> parents;
  std::vector<std::int32_t> skips;  ///< [rows]: positions left out between a row and its parent
  std::vector<std::int32_t>
      groups;  ///< [rows]: rows of the same number >= 0 see each other; -1 none
  std::vector<std::int32_t> scored;  ///< which of these rows' logits are wanted
  /// Those that are mask rows, rising: their linear layers meet the adapters. Their input is the
  /// adapters' mask embedding, whatever their tokens, if there is one.
  std::vector<std::int32_t> masks;
  std::shared_ptr<const GatedLora> lora;  ///< of mask rows
  LogitMix mix;                           ///< of the verified rows' laws

  std::size_t rows() const noexcept { return tokens.size(); }
  bool empty() const noexcept { return tokens.empty(); }
  /// Adds a row. @return  its number
  std::int32_t add(Token token, std::int32_t parent, std::int32_t skip = 0,
                   std::int32_t group = -1) {
    tokens.push_back(token);
    parents.push_back(parent);
    skips.push_back(skip);
    groups.push_back(group);
    return static_cast<std::int32_t>(tokens.size()) - 1;
  }
  /// Adds a mask row.
  /// @param wanted  its logits are
  std::int32_t add_mask(Token token, std::int32_t parent, std::int32_t skip, std::int32_t group,
                        bool wanted) {
    const std::int32_t row = add(token, parent, skip, group);
    masks.push_back(row);
    if (wanted) scored.push_back(row);
    return row;
  }
  /// Positions after the text's newest token that they take, those of the draft included.
  std::size_t depths(const TokenDraft& draft) const {
    std::vector<std::int64_t> depth;  // of the drafted tokens, then of these rows
    std::int64_t most = 0;
    const auto place = [&](std::int32_t parent, std::int32_t skip) {
      const std::int64_t before = parent < 0 ? parent + 1 : depth[static_cast<std::size_t>(parent)];
      depth.push_back(before + 1 + skip);
      most = std::max(most, depth.back());
    };
    for (std::size_t i = 0; i < draft.size(); ++i) place(draft.parent(i), 0);
    for (std::size_t i = 0; i < rows(); ++i) place(parents[i], skips[i]);
    return static_cast<std::size_t>(most);
  }
};

}  // namespace forerun
