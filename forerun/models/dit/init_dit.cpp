#include "forerun/models/dit/init_dit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <utility>

namespace forerun {
namespace {

constexpr double kDeviation = 0.02;
constexpr std::int64_t kTimeWaves = 256;

Linear zero_linear(std::int64_t out, std::int64_t in) {
  return {at::zeros({out, in}), at::zeros({out})};
}

at::Tensor normal(std::int64_t rows, std::int64_t columns, const at::Generator& generator) {
  return at::empty({rows, columns}).normal_(0.0, kDeviation, generator);
}

}  // namespace

Linear xavier_linear(std::int64_t out, std::int64_t in, at::Generator generator) {
  const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
  return {at::empty({out, in}).uniform_(-bound, bound, std::move(generator)), at::zeros({out})};
}

DitBlock random_block(const DitConfig& c, at::Generator generator) {
  return {.modulation = zero_linear(6 * c.hidden, c.hidden),
          .qkv = xavier_linear(3 * c.hidden, c.hidden, generator),
          .out = xavier_linear(c.hidden, c.hidden, generator),
          .up = xavier_linear(c.mlp, c.hidden, generator),
          .down = xavier_linear(c.hidden, c.mlp, generator)};
}

Dit random_dit(const DitConfig& config, std::uint64_t seed) {
  check_dit_config(config);
  const DitConfig& c = config;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Dit m;
  m.config = config;
  m.positions = dit_positions(c);
  m.patches = xavier_linear(c.hidden, c.channels * c.patch * c.patch, generator);
  m.time = {{normal(c.hidden, kTimeWaves, generator), at::zeros({c.hidden})},
            {normal(c.hidden, c.hidden, generator), at::zeros({c.hidden})}};
  m.labels = normal(c.classes + 1, c.hidden, generator);
  for (std::int64_t i = 0; i < c.depth; ++i) m.blocks.push_back(random_block(c, generator));
  m.head = {zero_linear(2 * c.hidden, c.hidden),
            zero_linear(c.patch * c.patch * c.out_channels(), c.hidden)};
  return m;
}

}  // namespace forerun
