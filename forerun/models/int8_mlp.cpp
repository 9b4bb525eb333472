#include "forerun/models/int8_mlp.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace forerun {

namespace k = kernel;

namespace {

// Gates, followed by their ups, that one thread computes together: whole panels.
constexpr std::int64_t kTask = 2 * k::kPanel;
// Rows of a task's outputs held at a time.
constexpr std::int64_t kTaskRows = 64;

std::int64_t tasks_of(std::int64_t intermediate) { return (intermediate + kTask - 1) / kTask; }

at::Tensor by_turns(const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(0) / 2, tasks = tasks_of(width);
  at::Tensor out = at::zeros({tasks * 2 * kTask, gate_up.size(1)}, at::kFloat);
  for (std::int64_t t = 0; t < tasks; ++t) {
    const std::int64_t first = t * kTask, n = std::min(kTask, width - first);
    out.narrow(0, 2 * first, n).copy_(gate_up.narrow(0, first, n));
    out.narrow(0, 2 * first + kTask, n).copy_(gate_up.narrow(0, width + first, n));
  }
  return out;
}

}  // namespace

Int8Mlp Int8Mlp::pack(const Linear& gate_up, const Linear& down, Activation activation,
                      Arena& arena) {
  Int8Mlp out;
  const at::Tensor& bias = gate_up.bias;
  out.gate_up_ = Int8Matrix::pack(
      by_turns(gate_up.weight),
      bias.defined() ? by_turns(bias.unsqueeze(1)).squeeze(1).contiguous() : at::Tensor(), arena);
  out.down_ = Int8Matrix::pack(down.weight, down.bias, arena);
  out.activation_ = activation;
  return out;
}

std::int64_t Int8Mlp::scratch_size(std::int64_t intermediate) noexcept {
  return std::max(kTaskRows * 2 * kTask, k::rotated_width(intermediate));
}

void Int8Mlp::run(ThreadTeam::Worker& worker, const k::Int8Rows& x, const Gated& gated,
                  std::int64_t rows, float* scratch, float* out, std::int64_t stride, bool add,
                  const std::uint8_t* next) const {
  const std::int64_t tasks = tasks_of(intermediate()), end = worker.own_end(tasks);
  const std::uint8_t* down = down_.first_panel(worker);
  worker.each(tasks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      gate(x, gated.values, rows, t, scratch, t + 1 == end ? down : nullptr);
    }
  });
  const std::int64_t width = intermediate();
  worker.each(rows, std::max<std::int64_t>(1, rows / (2 * worker.count())),
              [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t r = first; r < last; ++r) {
                  kernels().quantize_row(gated.values + r * width, width, gated.rows, r, scratch);
                }
              });
  down_.multiply(worker, gated.rows, rows, out, stride, add, next);
}

// 96 gates, their ups and the activation, while all of it is in the cache.
void Int8Mlp::gate(const k::Int8Rows& x, float* gated, std::int64_t rows, std::int64_t task,
                   float* scratch, const std::uint8_t* next) const {
  constexpr std::int64_t kPanels = 2 * kTask / k::kPanel;
  const std::int64_t width = std::min(kTask, intermediate() - task * kTask);
  float* both = scratch;
  for (std::int64_t first = 0; first < rows; first += kTaskRows) {
    const std::int64_t n = std::min(kTaskRows, rows - first);
    gate_up_.multiply(task * kPanels, (task + 1) * kPanels, k::rows_from(x, first), n, both,
                      2 * kTask, false, next);
    for (std::int64_t r = 0; r < n; ++r) {
      const float* gates = both + r * 2 * kTask;
      float* active = gated + (first + r) * intermediate() + task * kTask;
      if (activation_ == Activation::kSilu) {
        kernels().silu_gate_row(gates, gates + kTask, width, active);
      } else {
        kernels().gelu_gate_row(gates, gates + kTask, width, active);
      }
    }
  }
}

}  // namespace forerun
