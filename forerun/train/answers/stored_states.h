#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/answers/state_store.h"
#include "forerun/train/answers/target_states.h"

namespace forerun {

/// A target's states of an objective's documents, kept in a file from one epoch to the next if one
/// is named.
class StoredStates {
 public:
  /// @param layers  zero-based ids of the blocks whose output is wanted
  /// @param path    of the store; empty: states are computed every time
  /// @param key     of the target, for the store
  /// @throws as StateStore::expect_usable
  StoredStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
               std::vector<std::int64_t> layers, std::string path, std::string key);

  /// @param batch  some of `all`
  /// @throws FormatError  as StateStore: the store is used by another process, cut short, ...
  /// @param all    the objective's documents
  TargetStates::Batch of(std::span<const AnswerDocument> batch,
                         std::span<const AnswerDocument> all);
  const TargetStates& target() const noexcept { return states_; }

 private:
  void open(std::span<const AnswerDocument> all);

  TargetStates states_;
  std::string path_, key_;
  std::unique_ptr<StateStore> store_;
};

}  // namespace forerun
