#include "forerun/train/answers/stored_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "forerun/base/hash.h"

namespace forerun {

StoredStates::StoredStates(std::shared_ptr<const DecoderLm> target, TargetHead head,
                           std::vector<std::int64_t> layers, std::string path, std::string key)
    : states_(std::move(target), std::move(head), layers),
      path_(std::move(path)),
      key_(fmt::format("{} layers {}", key, fmt::join(layers, ","))) {
  if (!path_.empty()) StateStore::expect_usable(path_);
}

// At the first batch: until then the run can be refused, and opening resets a store of another key.
void StoredStates::open(std::span<const AnswerDocument> all) {
  std::vector<std::int64_t> rows;
  Hash hash;  // of lengths too: they determine where rows are
  for (const AnswerDocument& d : all) {
    rows.push_back(d.size());
    hash.add_all(d.tokens);
  }
  const std::string key = fmt::format("{} documents {} {:016x}", key_, rows.size(), hash.value());
  store_ = std::make_unique<StateStore>(path_, states_.shape(), rows, key);
}

TargetStates::Batch StoredStates::of(std::span<const AnswerDocument> batch,
                                     std::span<const AnswerDocument> all) {
  if (!path_.empty() && store_ == nullptr) open(all);
  std::vector<std::span<const Token>> tokens;
  std::vector<std::size_t> numbers;
  for (const AnswerDocument& d : batch) {
    tokens.push_back(d.tokens);
    numbers.push_back(d.number);
  }
  return store_ ? states_.of(tokens, numbers, *store_) : states_.of(tokens);
}

}  // namespace forerun
