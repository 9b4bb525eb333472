#include "forerun/models/internal/packed_documents.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>

#include "forerun/tensor/attention.h"

namespace forerun::internal {

PackedDocuments::PackedDocuments(std::span<const std::span<const Token>> documents,
                                 const DecoderConfig& config)
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
    seen_.push_back(causal_mask(n, {}));
    seen_locally_.push_back(config.window > 0 ? causal_mask(n, config.window) : seen_.back());
  }
  ids_ = at::tensor(ids, at::kLong);
}

at::Tensor PackedDocuments::attention(std::size_t layer, const at::Tensor& q,
                                      const KeysValues& own) const {
  const AttentionOptions options{.scale = config_.query_scale,
                                 .softcap = config_.attention_softcap};
  std::vector<at::Tensor> out;
  std::int64_t row = 0;
  for (std::size_t d = 0; d < lengths_.size(); row += lengths_[d++]) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, row, lengths_[d]); };
    out.push_back(attend(rows(q), rows(own.k).transpose(0, 1), rows(own.v).transpose(0, 1),
                         (config_.sliding[layer] ? seen_locally_ : seen_)[d], options));
  }
  return at::cat(out);
}

}  // namespace forerun::internal
