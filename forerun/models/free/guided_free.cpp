#include "forerun/models/free/guided_free.h"

#include <ATen/ATen.h>

#include <cstring>
#include <stdexcept>

#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun {

Bf16Free::Bf16Free(const FreeNetwork& n)
    : config_(n.config),
      frozen_image_(n.frozen_image),
      positions_(n.positions.detach().to(at::kFloat).contiguous()),
      patches_(Bf16Patches::pack(n.patches.weight, n.patches.bias, arena_)),
      fuse_(Bf16Matrix::pack(n.fuse.weight, n.fuse.bias, arena_)),
      stack_(Bf16Stack::pack(
          n.config, {.time = n.time, .labels = n.labels, .blocks = {&n.block, 1}, .head = n.head},
          arena_)) {
  if (frozen_image_) fresh_ = Bf16Patches::pack(n.fresh, {}, arena_);
}

void Bf16Free::begin(const float* x, const float* feature, const float* fresh, DitRoom& room,
                     float* hidden) const {
  const std::int64_t n = config_.tokens(), d = config_.hidden;
  const auto* const positions = positions_.const_data_ptr<float>();
  const auto room_of = [&](std::int64_t columns) {
    return room.products.room_for(static_cast<std::size_t>(n * columns));
  };
  float* const tokens = room_of(patches_.columns());
  patches_.embed(config_, x, room, tokens);
  std::uint16_t* const both = room.rows.room_for(static_cast<std::size_t>(n * 2 * d));
  for (std::int64_t t = 0; t < n; ++t) {
    float* const token = tokens + t * patches_.columns();
    kernels().add_row(positions + t * d, d, token);
    kernels().round_to_bf16(token, d, 1.0F, both + t * 2 * d);
    kernels().round_to_bf16(feature + t * d, d, 1.0F, both + t * 2 * d + d);
  }
  float* const fused = room_of(fuse_.columns());
  fuse_.multiply(
      {.in = both, .in_stride = 2 * d, .out = fused, .out_stride = fuse_.columns(), .rows = n});
  if (frozen_image_) fresh_.embed(config_, fresh, room, fused, true);
  for (std::int64_t t = 0; t < n; ++t) {
    std::memcpy(hidden + t * d, fused + t * fuse_.columns(),
                static_cast<std::size_t>(d) * sizeof(float));
  }
}

GuidedOutput Bf16Free::run(const DitRows& rows, const Guidance& guidance,
                           const at::Tensor& features, const at::Tensor& fresh) const {
  const std::int64_t halves = guidance.halves(), of_image = config_.tokens() * config_.hidden;
  const at::Tensor states = rows.states.contiguous(), before = features.contiguous();
  const at::Tensor noise = frozen_image_ ? fresh.contiguous() : states;
  const auto* const x = states.const_data_ptr<float>();
  const auto* const f = before.const_data_ptr<float>();
  const auto* const e = noise.const_data_ptr<float>();
  return stack_.run(rows, guidance,
                    [&](std::int64_t row, std::int64_t half, DitRoom& room, float* hidden) {
                      const std::int64_t at = row * config_.values();
                      begin(x + at, f + (row * halves + half) * of_image, e + at, room, hidden);
                    });
}

GuidedOutput GuidedFree::run(const DitRows& rows, const Guidance& guidance,
                             const at::Tensor& features, const at::Tensor& fresh) const {
  const DitConfig& c = network_->config;
  check_rows(c, rows);
  const std::int64_t n = rows.states.size(0);
  if (features.sizes() != at::IntArrayRef({n, guidance.halves(), c.tokens(), c.hidden}) ||
      (frozen_image() && fresh.sizes() != rows.states.sizes())) {
    throw std::invalid_argument("FREE: a feature of every half and the noise of every state");
  }
  if (packed_) return packed_->run(rows, guidance, features, fresh);
  return run_halves(c, rows, guidance, features,
                    [&](std::int64_t row, const at::Tensor& state, const at::Tensor& time,
                        const at::Tensor& label, const at::Tensor& feature) {
                      return run_free(*network_, state, feature, time, label,
                                      frozen_image() ? fresh.narrow(0, row, 1) : at::Tensor());
                    });
}

}  // namespace forerun
