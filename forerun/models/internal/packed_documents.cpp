#include "forerun/models/internal/packed_documents.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>

#include "forerun/tensor/attention.h"
#include "forerun/tensor/ids.h"

namespace forerun::internal {

PackedDocuments::PackedDocuments(std::span<const std::span<const Token>> documents,
                                 const DecoderConfig& config, const at::Device& device)
    : PackedDocuments(documents, config, device, !device.is_cpu()) {}

PackedDocuments::PackedDocuments(std::span<const std::span<const Token>> documents,
                                 const DecoderConfig& config, const at::Device& device, bool padded)
    : config_(config) {
  if (documents.empty()) throw std::invalid_argument("training: no documents in a pass");
  std::vector<std::int64_t> ids;
  for (const std::span<const Token> tokens : documents) {
    const auto n = static_cast<std::int64_t>(tokens.size());
    if (n == 0 || n > config.context) {
      throw std::invalid_argument(
          fmt::format("training: a document of {} tokens; expected 1 to {}, the model's context", n,
                      config.context));
    }
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    lengths_.push_back(n);
  }
  ids_ = ids_on(device, ids);
  if (padded && config.attention_softcap <= 0.0 && !config.sinks) {
    padded_.emplace(lengths_, device, 8);
    if (config.window > 0) {
      seen_locally_.push_back(causal_mask(padded_->length(), config.window).to(device));
    }
    return;
  }
  for (const std::int64_t n : lengths_) {
    const auto there = [&](const at::Tensor& seen) {
      return seen.defined() ? seen.to(device) : seen;  // undefined: everything is seen
    };
    seen_.push_back(there(causal_mask(n, {})));
    seen_locally_.push_back(config.window > 0 ? there(causal_mask(n, config.window))
                                              : seen_.back());
  }
}

at::Tensor PackedDocuments::attention(std::size_t layer, const at::Tensor& q, const KeysValues& own,
                                      const at::Tensor& sinks) const {
  const bool sliding = config_.sliding[layer];
  return padded_ ? at_once(q, own, sliding)
                 : one_by_one(q, own, sliding ? seen_locally_ : seen_, sinks);
}

// One call for all documents: rows behind a document's last see what no row before sees.
at::Tensor PackedDocuments::at_once(const at::Tensor& q, const KeysValues& own,
                                    bool sliding) const {
  const auto by_head = [&](const at::Tensor& x) { return padded_->pad(x).transpose(1, 2); };
  const bool local = sliding && config_.window > 0;
  const at::Tensor out = at::scaled_dot_product_attention(
      by_head(q), by_head(own.k), by_head(own.v),
      local ? std::optional<at::Tensor>(seen_locally_.front()) : std::nullopt, 0.0, !local,
      config_.query_scale, /*enable_gqa=*/q.size(1) != own.k.size(1));
  return padded_->unpad(out.transpose(1, 2)).flatten(1);
}

at::Tensor PackedDocuments::one_by_one(const at::Tensor& q, const KeysValues& own,
                                       std::span<const at::Tensor> seen,
                                       const at::Tensor& sinks) const {
  const AttentionOptions options{
      .scale = config_.query_scale, .softcap = config_.attention_softcap, .sinks = sinks};
  std::vector<at::Tensor> out;
  std::int64_t row = 0;
  for (std::size_t d = 0; d < lengths_.size(); row += lengths_[d++]) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, row, lengths_[d]); };
    out.push_back(attend(rows(q), rows(own.k).transpose(0, 1), rows(own.v).transpose(0, 1), seen[d],
                         options));
  }
  return at::cat(out);
}

}  // namespace forerun::internal
