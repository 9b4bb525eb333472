#include "forerun/models/dit/bf16_dit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "forerun/formats/half.h"
#include "forerun/models/ddpm_schedule.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/thread_team.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

constexpr float kRowNormEps = 1e-6F;
constexpr std::int64_t kOfBlock = 6, kOfHead = 2;  // pieces of a modulation

Bf16Matrix packed(const Linear& l, Arena& arena) {
  return Bf16Matrix::pack(l.weight, l.bias, arena);
}

// Of all times, each separately: a product over many rows might depend on their number.
at::Tensor embedded_times(const DitTime& time, const DitConfig& c) {
  at::Tensor out = at::empty({DdpmSchedule::kTrained, c.hidden}, at::kFloat);
  parallel_for(0, out.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode no_autograd;
    for (std::int64_t t = begin; t < end; ++t) {
      out[t].copy_(embed_time(time, at::full({1}, t, at::kLong), c.time_divisor)[0]);
    }
  });
  return out;
}

float* room_for(AlignedBuffer<float>& b, std::int64_t n) {
  return b.room_for(static_cast<std::size_t>(n));
}
std::uint16_t* room_for(AlignedBuffer<std::uint16_t>& b, std::int64_t n) {
  return b.room_for(static_cast<std::size_t>(n));
}

// bf16 rows of `width` values times a matrix, into the room for products.
float* product(const Bf16Matrix& m, const std::uint16_t* in, std::int64_t rows, DitRoom& room) {
  float* const out = room_for(room.products, rows * m.columns());
  m.multiply(
      {.in = in, .in_stride = m.inputs(), .out = out, .out_stride = m.columns(), .rows = rows});
  return out;
}

}  // namespace

Bf16Patches Bf16Patches::pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena) {
  Bf16Patches out;
  out.matrix_ = Bf16Matrix::pack(at::cat({weight, weight}, 1), bias, arena);
  return out;
}

void Bf16Patches::embed(const DitConfig& c, const float* x, DitRoom& room, float* out,
                        bool add) const {
  const std::int64_t p = c.patch, side = c.side(), values = matrix_.inputs() / 2;
  std::uint16_t* const rows = room_for(room.rows, c.tokens() * 2 * values);
  for (std::int64_t t = 0; t < c.tokens(); ++t) {
    std::uint16_t* to = rows + t * 2 * values;
    for (std::int64_t channel = 0; channel < c.channels; ++channel) {
      for (std::int64_t i = 0; i < p; ++i) {
        const float* const from =
            x + (channel * c.input + t / side * p + i) * c.input + t % side * p;
        for (std::int64_t j = 0; j < p; ++j, ++to) {
          to[0] = bf16_of_float(from[j]);
          to[values] = bf16_of_float(from[j] - float_of_bf16(to[0]));
        }
      }
    }
  }
  matrix_.multiply({.in = rows,
                    .in_stride = 2 * values,
                    .out = out,
                    .out_stride = matrix_.columns(),
                    .rows = c.tokens()},
                   add);
}

bool Bf16Stack::fits(const DitConfig& c) noexcept {
  return cpu_features().int8() && c.hidden % 2 == 0 && c.mlp % 2 == 0;
}

std::int64_t Bf16Stack::width() const noexcept {
  // Products write whole vectors of 16.
  return static_cast<std::int64_t>(blocks_.size()) *
             (blocks_.empty() ? 0 : blocks_[0].modulation.columns()) +
         head_modulation_.columns();
}

Bf16Stack Bf16Stack::pack(const DitConfig& config, const Parts& parts, Arena& arena) {
  Bf16Stack out;
  out.config_ = config;
  out.times_ = embedded_times(parts.time, config);
  out.labels_ = parts.labels.detach().to(at::kFloat).contiguous();
  for (const DitBlock& b : parts.blocks) {
    out.blocks_.push_back({.modulation = packed(b.modulation, arena),
                           .qkv = packed(b.qkv, arena),
                           .out = packed(b.out, arena),
                           .up = packed(b.up, arena),
                           .down = packed(b.down, arena)});
  }
  out.head_modulation_ = packed(parts.head.modulation, arena);
  out.head_ = packed(parts.head.out, arena);
  return out;
}

// State shared by the threads of a pass.
struct Bf16Stack::Pass {
  AlignedBuffer<std::uint16_t> conditions;  // [images, hidden]
  AlignedBuffer<float> modulations;         // [images, width]
  std::vector<DitRoom> rooms;
};

void Bf16Stack::block(const Block& b, const float* m, DitRoom& room, float* h) const {
  const std::int64_t n = config_.tokens(), d = config_.hidden;
  const auto norm = [&](const float* shift, const float* scale, float eps) {
    std::uint16_t* const rows = room_for(room.rows, n * d);
    for (std::int64_t t = 0; t < n; ++t) {
      kernels().layer_norm_modulate_row(h + t * d, shift, scale, eps, d, rows + t * d);
    }
    return rows;
  };
  const auto add = [&](const float* gate, const Bf16Matrix& last, const std::uint16_t* rows) {
    const float* const y = product(last, rows, n, room);
    for (std::int64_t t = 0; t < n; ++t) {
      kernels().add_gated_row(gate, y + t * last.columns(), d, h + t * d);
    }
  };
  const float* const qkv = product(b.qkv, norm(m, m + d, kRowNormEps), n, room);
  std::uint16_t* const attended = room_for(room.rows, n * d);
  room.attention.run(qkv, b.qkv.columns(), attended);
  add(m + 2 * d, b.out, attended);

  const auto eps = static_cast<float>(config_.mlp_norm_eps);
  const float* const wide = product(b.up, norm(m + 3 * d, m + 4 * d, eps), n, room);
  std::uint16_t* const active = room_for(room.rows, n * config_.mlp);
  for (std::int64_t t = 0; t < n; ++t) {
    kernels().gelu_row(wide + t * b.up.columns(), config_.mlp, active + t * config_.mlp);
  }
  add(m + 5 * d, b.down, active);
}

void Bf16Stack::head(const float* m, const float* h, DitRoom& room, float* noise) const {
  const DitConfig& c = config_;
  const std::int64_t n = c.tokens(), d = c.hidden, p = c.patch, side = c.side();
  std::uint16_t* const rows = room_for(room.rows, n * d);
  for (std::int64_t t = 0; t < n; ++t) {
    kernels().layer_norm_modulate_row(h + t * d, m, m + d, kRowNormEps, d, rows + t * d);
  }
  const float* const y = product(head_, rows, n, room);
  const std::int64_t channels = head_.outputs() / (p * p);  // and variances, which are not used
  for (std::int64_t t = 0; t < n; ++t) {
    const float* const from = y + t * head_.columns();
    for (std::int64_t i = 0; i < p; ++i) {
      float* const to = noise + (t / side * p + i) * c.input + t % side * p;
      for (std::int64_t j = 0; j < p; ++j) {
        for (std::int64_t channel = 0; channel < c.channels; ++channel) {
          to[channel * c.input * c.input + j] = from[(i * p + j) * channels + channel];
        }
      }
    }
  }
}

GuidedOutput Bf16Stack::run(const DitRows& rows, const Guidance& guidance,
                            const Begin& begin) const {
  const c10::InferenceMode no_autograd;
  const DitConfig& c = config_;
  const std::int64_t n = rows.states.size(0), halves = guidance.halves(), images = n * halves;
  const std::int64_t d = c.hidden, stride = width();
  const at::Tensor noise = at::empty({n, halves, c.channels, c.input, c.input}, at::kFloat);
  GuidedOutput out{.noise = at::empty({n, c.channels, c.input, c.input}, at::kFloat),
                   .feature = at::empty({n, halves, c.tokens(), d}, at::kFloat)};
  auto* const features = out.feature.mutable_data_ptr<float>();
  auto* const noises = noise.mutable_data_ptr<float>();
  const int threads = at::get_num_threads();

  thread_local Pass pass;  // of the caller: its room is reused
  pass.rooms.resize(std::max(pass.rooms.size(), static_cast<std::size_t>(threads)));
  for (DitRoom& room : pass.rooms) room.attention.room_for({c.tokens(), c.heads, c.head_dim()});
  std::uint16_t* const conditions = room_for(pass.conditions, images * d);
  float* const modulations = room_for(pass.modulations, images * stride);
  DitRoom* const rooms = pass.rooms.data();

  const auto condition = [&](std::int64_t image) {
    const auto row = static_cast<std::size_t>(image / halves);
    const std::int64_t label = image % halves == 0 ? rows.labels[row] : c.classes;
    const float* const t = times_.const_data_ptr<float>() + rows.times[row] * d;
    const float* const l = labels_.const_data_ptr<float>() + label * d;
    for (std::int64_t j = 0; j < d; ++j) {
      const float x = t[j] + l[j];
      conditions[image * d + j] = bf16_of_float(x / (1.0F + std::exp(-x)));
    }
  };
  const auto modulate = [&](ThreadTeam::Worker& w, const Bf16Matrix& m, std::int64_t at) {
    w.each(m.panels(), 1, [&](std::int64_t first, std::int64_t last) {
      m.multiply(first, last,
                 {.in = conditions,
                  .in_stride = d,
                  .out = modulations + at,
                  .out_stride = stride,
                  .rows = images});
    });
  };
  const auto image_of = [&](std::int64_t image, DitRoom& room) {
    float* const h = features + image * c.tokens() * d;
    const float* m = modulations + image * stride;
    begin(image / halves, image % halves, room, h);
    for (const Block& b : blocks_) {
      block(b, m, room, h);
      m += b.modulation.columns();
    }
    head(m, h, room, noises + image * c.values());
  };
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
    w.each(images, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) condition(i);
    });
    std::int64_t at = 0;
    for (const Block& b : blocks_) {
      modulate(w, b.modulation, at);
      at += b.modulation.columns();
    }
    modulate(w, head_modulation_, at);
    w.each(images, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) image_of(i, rooms[w.index()]);
    });
  });
  for (std::int64_t row = 0; row < n; ++row) out.noise[row].copy_(guided(noise[row], guidance));
  return out;
}

Bf16Dit::Bf16Dit(const Dit& model)
    : config_(model.config),
      positions_(model.positions.detach().to(at::kFloat).contiguous()),
      patches_(Bf16Patches::pack(model.patches.weight, model.patches.bias, arena_)),
      stack_(Bf16Stack::pack(
          model.config,
          {.time = model.time, .labels = model.labels, .blocks = model.blocks, .head = model.head},
          arena_)) {}

GuidedOutput Bf16Dit::run(const DitRows& rows, const Guidance& guidance) const {
  const std::int64_t d = config_.hidden;
  const at::Tensor states = rows.states.contiguous();
  const auto* const x = states.const_data_ptr<float>();
  const auto* const positions = positions_.const_data_ptr<float>();
  return stack_.run(
      rows, guidance, [&](std::int64_t row, std::int64_t, DitRoom& room, float* hidden) {
        float* const y = room_for(room.products, config_.tokens() * patches_.columns());
        patches_.embed(config_, x + row * config_.values(), room, y);
        for (std::int64_t t = 0; t < config_.tokens(); ++t) {
          float* const h = hidden + t * d;
          std::memcpy(h, y + t * patches_.columns(), static_cast<std::size_t>(d) * sizeof(float));
          kernels().add_row(positions + t * d, d, h);
        }
      });
}

}  // namespace forerun
