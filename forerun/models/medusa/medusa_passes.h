#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/markov_head.h"
#include "forerun/models/medusa/medusa.h"
#include "forerun/tensor/precision.h"

namespace forerun {

/// Where a text ends, as Medusa heads read it.
struct MedusaInput {
  const float* features = nullptr;  ///< [feature_width], at the last token that the target has read
  Token newest = 0;                 ///< the token after it, of the target's vocabulary
};

/// Medusa heads for decoding, in a fixed precision. Thread-safe; passes of one network run one at a
/// time.
class MedusaPasses {
 public:
  /// @param model  float32; its embedding may be of another type
  /// @param precision  all but kInt8 is computed in float32
  static std::unique_ptr<MedusaPasses> make(Medusa model, Precision precision);
  virtual ~MedusaPasses() = default;

  const MedusaConfig& config() const noexcept { return config_; }
  /// The target's token of a draft id.
  Token token(std::int64_t draft_id) const noexcept {
    return tokens_.empty() ? static_cast<Token>(draft_id)
                           : tokens_[static_cast<std::size_t>(draft_id)];
  }
  /// Whether a head's logits change with the token before.
  bool conditioned() const noexcept { return markov_.defined(); }
  /// Makes logits of some draft ids those after a token, in float32.
  /// @param logits  [ids]
  void condition(Token previous, std::span<const std::int32_t> ids, std::span<float> logits) const {
    if (markov_.defined()) markov_.add(previous, ids, logits);
  }

  /// One pass over the ends of some texts, at least one.
  /// @return  [texts * heads, draft_vocab] float32, a text's heads one behind the other, without
  ///          what the token before adds
  virtual at::Tensor forward(std::span<const MedusaInput> inputs) const = 0;
  /// Bytes of the weights that a pass reads.
  virtual std::int64_t weight_bytes() const noexcept = 0;

 protected:
  MedusaPasses(const Medusa& model, Precision precision);

  MedusaConfig config_;
  std::vector<Token> tokens_;  // of draft ids; empty: all
  MarkovHead markov_;
};

}  // namespace forerun
