#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/models/medusa/medusa_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/tensor/linear.h"
#include "forerun/tensor/norm.h"

namespace forerun {

/// Heads that predict the next few tokens of a text, all in one pass, from the target's hidden
/// states at the last token that it has read and from the token that came out there:
///
///   z = fc [norm(feature), ..., norm(embedding of the newest token)]
///   z = z + down(silu(gate n) * up n) with n = norm(z)
///   head k: norm(y + W_k y) with y = norm(z), then a product with the rows of the draft vocabulary
///
/// and, with a Markov head, what the token before a place adds to its logits. There is no
/// attention and no cache: the target's states hold the text. All tensors but the embedding are of
/// one dtype, float32 or float64, and all on one device; under autocast products run in its dtype.
/// Every function below is differentiable in every weight. Source: Medusa, Cai et al. 2024,
/// arXiv:2401.10774. The newest token as input: Hydra, Ankner et al. 2024, arXiv:2402.05109; states
/// of several layers: EAGLE-3, Li et al. 2025, arXiv:2503.01840; Markov head: DSpark,
/// arXiv:2607.05147.
struct Medusa {
  MedusaConfig config;
  std::vector<RmsNorm> feature_norms;  ///< of each feature
  RmsNorm embedding_norm, mlp_norm, norm;
  Linear fc;              ///< [width, inputs]
  Linear gate, up, down;  ///< of the MLP
  Linear heads;           ///< [heads * width, width]: W_0, W_1, ...
  std::vector<RmsNorm> head_norms;
  at::Tensor head;             ///< [draft_vocab, width], rows of draft_to_target
  at::Tensor draft_to_target;  ///< [draft_vocab] int64, rising; undefined: every token
  at::Tensor markov_w1;        ///< [vocab, rank], of the token before; or undefined
  at::Tensor markov_w2;        ///< [draft_vocab, rank], of the token predicted; or undefined
  at::Tensor embedding;        ///< [vocab, hidden]: the target's, of any type

  Medusa() = default;
  /// Without weights.
  explicit Medusa(const MedusaConfig& config);
};

/// All trained weights, by their names in files, in a fixed order; the embedding is the target's
/// and not included.
std::vector<ModelWeight> weights(Medusa& model);

/// What the product with the vocabulary reads.
/// @param features  [n, feature_width] at the last tokens that the target has read
/// @param newest    [n] int64, the tokens after those
/// @return          [n, heads, width]
/// @throws std::invalid_argument  features of another width
at::Tensor head_states(const Medusa& model, const at::Tensor& features, const at::Tensor& newest);

/// Logits over the draft vocabulary, without the Markov head.
/// @param states  [n, width], rows of head_states
/// @return        [n, draft_vocab] of the product's type
at::Tensor head_logits(const Medusa& model, const at::Tensor& states);

/// The addition of the token before to logits.
/// @param previous  [n] int64, ids of the target's vocabulary
/// @return          [n, draft_vocab] of the product's type
at::Tensor markov_bias(const Medusa& model, const at::Tensor& previous);

}  // namespace forerun
