#include "forerun/train/answers/answer_objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/core/philox.h"

namespace forerun {

std::uint32_t random_word(std::uint64_t seed, const AnswerDocument& document, std::uint32_t index) {
  const std::uint64_t key = document.key;
  return philox4x32(
      {index, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32), 0xdf1a54U},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[0];
}

void check_documents(const TokenShards& shards, std::int64_t vocab) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Token t : shards.tokens(i)) {
      if (t >= 0 && t < vocab) continue;
      throw std::invalid_argument(
          fmt::format("document {} holds token {}, the target's vocabulary has {}: it was made "
                      "by another model",
                      shards.id(i), t, vocab));
    }
  }
}

AnswerObjective::AnswerObjective(std::vector<TokenShards> data, std::int64_t vocab,
                                 std::int64_t context, const AnswerLossOptions& options)
    : data_(std::move(data)) {
  const auto most = static_cast<std::size_t>(std::min(options.length, context));
  std::vector<AnswerDocument> held_out;
  std::uint64_t folder = 0;
  for (const TokenShards& shards : data_) {
    check_documents(shards, vocab);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto tokens = shards.tokens(i).first(std::min(shards.tokens(i).size(), most));
      if (shards.prompt(i) + 2 > static_cast<std::int64_t>(tokens.size())) continue;
      // Answers to one prompt stay on one side, whichever folder they are in.
      const auto id = static_cast<std::uint64_t>(shards.id(i));
      const bool held = random_word(kHeldOutSeed, {.tokens = {}, .prompt = 0, .key = id}, 0) <
                        options.held_out * 0x1p32;
      (held ? held_out : documents_)
          .push_back({.tokens = tokens, .prompt = shards.prompt(i), .key = folder << 32 | id});
    }
    ++folder;
  }
  if (documents_.empty()) {
    if (!held_out.empty()) {
      throw std::invalid_argument(
          "all answers are held out, and none is left to learn from: give more answers");
    }
    throw std::invalid_argument(
        "the data holds no answer of two tokens or more to learn from: run forerun distill first");
  }
  trained_ = documents_.size();
  documents_.insert(documents_.end(), held_out.begin(), held_out.end());
  for (std::size_t i = 0; i < documents_.size(); ++i) documents_[i].number = i;
}

std::uint64_t AnswerObjective::data_hash() const {
  Hash hash;
  for (std::size_t i = 0; i < documents_.size(); ++i) {
    if (i == 0) hash.add(trained_);
    if (i == trained_) hash.add(held_out());
    hash.add(documents_[i].key).add(documents_[i].prompt).add_all(documents_[i].tokens);
  }
  if (held_out() == 0) hash.add(held_out());
  return hash.value();
}

LossSum AnswerObjective::loss(std::span<const std::size_t> examples, std::uint64_t seed) {
  std::vector<AnswerDocument> documents;
  for (const std::size_t i : examples) documents.push_back(documents_[i]);
  return loss_of(documents, seed);
}

LossSum AnswerObjective::held_out_loss(std::span<const std::size_t> examples) {
  std::vector<AnswerDocument> documents;
  for (const std::size_t i : examples) documents.push_back(documents_[trained_ + i]);
  return loss_of(documents, kHeldOutSeed);
}

}  // namespace forerun
