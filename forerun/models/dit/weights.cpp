#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "forerun/models/dit/dit.h"
#include "forerun/models/dit/dit_file.h"
#include "forerun/models/weights_digest.h"

namespace forerun {
namespace {

void add(Linear& l, const std::string& name, std::int64_t out, std::int64_t in,
         std::vector<ModelWeight>& to) {
  to.push_back({name + ".weight", &l.weight, {out, in}});
  to.push_back({name + ".bias", &l.bias, {out}});
}

}  // namespace

void add_weights(DitBlock& b, const DitConfig& c, const std::string& prefix,
                 std::vector<ModelWeight>& out) {
  add(b.modulation, prefix + "adaLN_modulation.1", 6 * c.hidden, c.hidden, out);
  add(b.qkv, prefix + "attn.qkv", 3 * c.hidden, c.hidden, out);
  add(b.out, prefix + "attn.proj", c.hidden, c.hidden, out);
  add(b.up, prefix + "mlp.fc1", c.mlp, c.hidden, out);
  add(b.down, prefix + "mlp.fc2", c.hidden, c.mlp, out);
}

void add_weights(DitHead& h, const DitConfig& c, std::int64_t out_channels,
                 const std::string& prefix, std::vector<ModelWeight>& out) {
  add(h.modulation, prefix + "adaLN_modulation.1", 2 * c.hidden, c.hidden, out);
  add(h.out, prefix + "linear", c.patch * c.patch * out_channels, c.hidden, out);
}

void add_weights(DitTime& t, const DitConfig& c, const std::string& prefix,
                 std::vector<ModelWeight>& out) {
  add(t.in, prefix + "mlp.0", c.hidden, 256, out);
  add(t.out, prefix + "mlp.2", c.hidden, c.hidden, out);
}

std::vector<ModelWeight> weights(Dit& m) {
  const DitConfig& c = m.config;
  std::vector<ModelWeight> out;
  add(m.patches, "x_embedder.proj", c.hidden, c.channels * c.patch * c.patch, out);
  add_weights(m.time, c, "t_embedder.", out);
  out.push_back({"y_embedder.embedding_table.weight", &m.labels, {c.classes + 1, c.hidden}});
  for (std::size_t i = 0; i < m.blocks.size(); ++i) {
    add_weights(m.blocks[i], c, fmt::format("blocks.{}.", i), out);
  }
  add_weights(m.head, c, c.out_channels(), "final_layer.", out);
  return out;
}

std::string digest_of(const Dit& model) {
  Dit shared = model;  // the same tensors; a digest only reads them
  return digest_of(weights(shared));
}

}  // namespace forerun
