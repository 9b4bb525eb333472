#include "forerun/api/draft_head.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace forerun {
namespace {

// How often the target says each token, over all answers.
std::vector<std::uint64_t> frequencies(const std::vector<TokenShards>& data, std::size_t vocab) {
  std::vector<std::uint64_t> out(vocab, 0);
  for (const TokenShards& shards : data) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto answer = shards.tokens(i).subspan(static_cast<std::size_t>(shards.prompt(i)));
      for (const Token t : answer) {
        if (t >= 0 && static_cast<std::size_t>(t) < vocab) ++out[static_cast<std::size_t>(t)];
      }
    }
  }
  return out;
}

}  // namespace

at::Tensor draft_vocabulary(const Model::Impl& target, const std::vector<TokenShards>& data,
                            std::int64_t size) {
  const auto vocab = static_cast<std::size_t>(target.lm.config.vocab);
  if (size <= 0 || static_cast<std::size_t>(size) >= vocab) return {};
  auto counts = frequencies(data, vocab);
  for (const Token t : target.end_tokens) {
    if (t >= 0 && static_cast<std::size_t>(t) < vocab) {
      counts[static_cast<std::size_t>(t)] += 1ULL << 40;
    }
  }
  std::vector<std::int64_t> order(vocab);
  for (std::size_t i = 0; i < vocab; ++i) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(size));
  std::sort(order.begin(), order.end());
  return at::tensor(order, at::kLong);
}

void check_feature_layers(const std::vector<std::int64_t>& layers, const DecoderConfig& target) {
  for (const std::int64_t layer : layers) {
    if (layer >= 0 && layer + 1 < target.layers) continue;
    throw UsageError(fmt::format(
        "feature layer {}: name some of 0 to {}; the target's last block is not to be read", layer,
        target.layers - 2));
  }
}

at::Tensor head_rows(const DecoderLm& numbers, const at::Tensor& tokens) {
  const at::Tensor rows =
      tokens.defined() ? numbers.head().index_select(0, tokens) : numbers.head();
  return rows.to(at::kFloat);
}

TargetHead head_over(const DecoderLm& numbers, const at::Tensor& tokens, const at::Tensor& rows) {
  const at::Device device = rows.defined() ? rows.device() : at::Device(at::kCPU);
  at::Tensor norm = numbers.final_norm.weight.to(device, at::kFloat);
  // The same logits: they are linear in the norm.
  if (numbers.config.logit_divisor != 1.0) norm = norm / numbers.config.logit_divisor;
  TargetHead head{.norm = norm,
                  .norm_eps = numbers.final_norm.eps,
                  .rows = rows,
                  .softcap = numbers.config.logit_softcap};
  if (tokens.defined()) {
    head.whole = numbers.head().to(device, at::kFloat);
    head.drafted = tokens.to(device);
  }
  return head;
}

}  // namespace forerun
