#pragma once

#include "forerun/core/categorical.h"

namespace forerun {

struct RngKey;

/// A token drawn with the noise of its position, and its margin.
struct NoiseDraw {
  Token token = 0;
  double margin =
      0.0;  ///< log p + g of the winner minus that of the runner-up (nats); +inf if alone
};

/// argmax_i(log p_i + g_i) with Gumbel noise g keyed by (seed, request, position) and i alone: its
/// law is `law`, and any drafter, or none, leads to the same token. Computed as the exponential
/// race argmin_i(e_i / p_i), g = -log e, which needs a logarithm only for tokens that can still
/// win. Source: Gumbel-max, Maddison et al. 2014, arXiv:1411.0030, section 2.
NoiseDraw sample_shared_noise(const Categorical& law, const RngKey& key);

/// The Gumbel noise g of one token at this position: a drafter that adds it to its own log q drafts
/// what the target will choose more often, and changes no output.
double shared_noise(Token token, const RngKey& key) noexcept;

/// log p + g of one token at this position (nats): the quantity that `sample_shared_noise`
/// maximises.
double shared_noise_score(const Categorical& law, Token token, const RngKey& key) noexcept;

}  // namespace forerun
