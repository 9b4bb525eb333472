#include <ATen/ATen.h>

#include <stdexcept>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/weights_digest.h"

namespace forerun {

std::string digest_of(const DecoderLm& model) {
  if (model.int8) throw std::invalid_argument("digest_of: packed weights are no numbers");
  const DecoderConfig& c = model.config;
  DecoderLm shared = model;  // the same tensors; a digest only reads them
  at::Tensor numbers =
      at::tensor({c.norm_eps, c.query_scale, c.embedding_scale, c.attention_softcap,
                  c.logit_softcap, static_cast<double>(c.window)},
                 at::kDouble);
  at::Tensor full = at::tensor(inverse_frequencies(c, false)),
             local = at::tensor(inverse_frequencies(c, true));
  std::vector<ModelWeight> all;
  const auto add = [&](at::Tensor& t) {
    if (t.defined()) all.push_back({"", &t, {}});
  };
  for (at::Tensor* t : {&numbers, &full, &local, &shared.embedding, &shared.final_norm.weight}) {
    add(*t);
  }
  if (!c.tied_head) add(shared.head.weight);
  for (DecoderLayer& layer : shared.layers) {
    for (RmsNorm* norm : {&layer.attention_norm, &layer.mlp_norm, &layer.attention_post_norm,
                          &layer.mlp_post_norm, &layer.q_norm, &layer.k_norm}) {
      add(norm->weight);
    }
    for (Linear* linear : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
      add(linear->weight);
      add(linear->bias);
    }
  }
  return digest_of(all);
}

}  // namespace forerun
