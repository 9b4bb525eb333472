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

}  // namespace

OutputOrder Int8Mlp::by_turns(std::int64_t intermediate) {
  return {.outputs = tasks_of(intermediate) * 2 * kTask, .from = [intermediate](std::int64_t i) {
            const std::int64_t gate = i / (2 * kTask) * kTask + i % kTask;
            if (gate >= intermediate) return std::int64_t{-1};
            return i % (2 * kTask) < kTask ? gate : intermediate + gate;
          }};
}

Int8Mlp Int8Mlp::pack(const Linear& gate, const Linear& up, const Linear& down,
                      Activation activation, Arena& arena, const ClampedGate& clamp) {
  Int8Mlp out;
  const OutputOrder order =
      by_turns(gate.stored != nullptr ? gate.stored->rows() : gate.weight.size(0));
  out.gate_up_ = pack_linear({&gate, &up}, &order, arena);
  out.down_ = pack_linear({&down}, nullptr, arena);
  out.activation_ = activation;
  out.slope_ = static_cast<float>(clamp.slope);
  out.limit_ = static_cast<float>(clamp.limit);
  return out;
}

std::int64_t Int8Mlp::scratch_size(std::int64_t intermediate) noexcept {
  return std::max(kTaskRows * 2 * kTask, k::rotated_width(intermediate));
}

std::int64_t Int8Mlp::gate_tasks() const noexcept { return tasks_of(intermediate()); }

void Int8Mlp::run(ThreadTeam::Worker& worker, const Pass& p) const {
  const std::int64_t tasks = gate_tasks(), end = worker.own_end(tasks);
  const std::uint8_t* after = down_.first_panel(worker);
  worker.each(tasks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) gate(p, t, t + 1 == end ? after : nullptr);
  });
  worker.each(p.rows, std::max<std::int64_t>(1, p.rows / (2L * worker.count())),
              [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t r = first; r < last; ++r) round(p, r);
                if (p.adapted) {
                  p.adapted->lower(p.layer, &Int8BlockLora::down, down_.in_form(p.gated.rows),
                                   first, last, p.scratch);
                }
              });
  const std::int64_t panels = down_.panels(), own_end = worker.own_end(panels);
  worker.each(panels, 1, [&](std::int64_t first, std::int64_t last) {
    down(p, first, last, last == own_end ? p.next : nullptr);
  });
}

void Int8Mlp::round(const Pass& p, std::int64_t r) const {
  const std::int64_t width = intermediate();
  kernels().quantize_row(p.gated.values + r * width, width, down_.in_form(p.gated.rows), r,
                         p.scratch);
}

void Int8Mlp::down(const Pass& p, std::int64_t first, std::int64_t last,
                   const std::uint8_t* next) const {
  float* out = p.out + first * k::kPanel;
  down_.multiply(first, last, down_.in_form(p.gated.rows), p.rows, out, p.stride, p.add, next);
  if (p.adapted) {
    p.adapted->raise(p.layer, &Int8BlockLora::down, first, last, 0, p.rows, out, p.stride);
  }
}

// 96 gates, their ups and the activation, while all of it is in the cache.
void Int8Mlp::gate(const Pass& p, std::int64_t task, const std::uint8_t* next) const {
  constexpr std::int64_t kPanels = 2 * kTask / k::kPanel;
  const std::int64_t width = std::min(kTask, intermediate() - task * kTask);
  const std::int64_t panel = task * kPanels;
  float* both = p.scratch;
  for (std::int64_t first = 0; first < p.rows; first += kTaskRows) {
    const std::int64_t n = std::min(kTaskRows, p.rows - first);
    k::Int8Rows x = k::rows_from(p.x, first);
    x.far = false;  // no other thread reads `both`
    gate_up_.multiply(panel, panel + kPanels, x, n, both, 2 * kTask, false, next);
    if (p.adapted) {
      p.adapted->raise(p.layer, &Int8BlockLora::gate_up, panel, panel + kPanels, first, first + n,
                       both, 2 * kTask);
    }
    for (std::int64_t r = 0; r < n; ++r) {
      const float* gates = both + r * 2 * kTask;
      float* active = p.gated.values + (first + r) * intermediate() + task * kTask;
      activate(gates, width, active, p.gated.rows.far);
    }
  }
}

void Int8Mlp::activate(const float* gates, std::int64_t width, float* out, bool far) const {
  const float* const ups = gates + kTask;
  switch (activation_) {
    case Activation::kSilu:
      return kernels().silu_gate_row(gates, ups, width, out, far);
    case Activation::kGeluTanh:
      return kernels().gelu_gate_row(gates, ups, width, out, far);
    case Activation::kClamped:
      return kernels().clamped_gate_row(gates, ups, slope_, limit_, width, out, far);
  }
}

}  // namespace forerun
