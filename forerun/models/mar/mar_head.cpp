#include "forerun/models/mar/mar_head.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

constexpr float kHeadNormEps = 1e-6F;
// Multiply-adds below which a call stays on one thread.
constexpr double kWorthTwo = 1.2e6;
// Rows that one thread takes through the whole head: their states stay in its caches.
constexpr std::int64_t kRowsAtOnce = 24;

float* room_of(AlignedBuffer<float>& b, std::int64_t n) {
  return b.room_for(static_cast<std::size_t>(n));
}

}  // namespace

// One row is one network on one state: a guided row of a call is two here.
struct MarHead::Pass {
  struct Item {
    const float *modulation, *time;  // [pieces]; time: null where it is in the modulation
    const float* state;
  };
  std::vector<Item> items;
  AlignedBuffer<float> hidden, normed, products, modulations;
  float *h = nullptr, *x = nullptr, *y = nullptr, *m = nullptr, *out = nullptr;
  AlignedBuffer<float> outputs;
  // Of x and y, in bf16; null in float32.
  AlignedBuffer<std::uint16_t> halves;
  std::uint16_t *half_x = nullptr, *half_y = nullptr;
};

MarHead::MarHead(std::shared_ptr<const MarNetwork> network, const MarSampling& sampling)
    : network_(std::move(network)),
      sampling_(sampling),
      schedule_(network_->config(), sampling),
      pieces_width_(network_->modulation_.columns()) {
  const c10::InferenceMode no_autograd;
  const MarConfig& c = network_->config();
  const rows::Kernels& k = rows::kernels();
  const bool separate = c.modulation == MarModulation::kSeparate;
  const std::int64_t stride = separate ? pieces_width_ : c.head_width;
  times_.resize(static_cast<std::size_t>(transitions() * stride));
  for (std::int64_t i = 0; i < transitions(); ++i) {
    // Each time separately: a product over many rows might depend on their number.
    const at::Tensor time =
        embed_time(network_->head_weights_, at::full({1}, schedule_.step(i).time, at::kLong))
            .to(at::kFloat)
            .contiguous();
    float* const to = times_.data() + i * stride;
    if (separate) {
      k.silu(time.data_ptr<float>(), c.head_width);
      network_->time_modulation_.multiply(
          {time.const_data_ptr<float>(), c.head_width, to, stride, 1});
    } else {
      std::copy_n(time.const_data_ptr<float>(), c.head_width, to);
    }
  }
}

// Modulations of rows that are sums of condition and time already.
void MarHead::modulate(std::span<const float> sums, std::span<float* const> to) const {
  const rows::Kernels& k = rows::kernels();
  const std::int64_t width = network_->config().head_width;
  const RowMatrix& matrix = network_->modulation_;
  const auto n = static_cast<std::int64_t>(to.size());
  std::vector<float> active(sums.begin(), sums.end());
  k.silu(active.data(), n * width);
  std::vector<float> out(static_cast<std::size_t>(n * pieces_width_));
  const auto some = [&](std::int64_t first, std::int64_t last) {
    matrix.multiply({active.data(), width, out.data(), pieces_width_, n}, first, last);
  };
  const double work = static_cast<double>(n * width) * static_cast<double>(pieces_width_);
  const int threads = work < kWorthTwo ? 1 : at::get_num_threads();
  if (threads == 1) {
    some(0, matrix.panels());
  } else {
    ThreadTeam::instance().run(threads,
                               [&](ThreadTeam::Worker& w) { w.each(matrix.panels(), 8, some); });
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(out.data() + i * pieces_width_, pieces_width_, to[static_cast<std::size_t>(i)]);
  }
}

std::vector<MarCondition> MarHead::prepare(std::span<const Input> inputs) const {
  const std::int64_t width = network_->config().head_width;
  const bool joint = network_->config().modulation == MarModulation::kJoint;
  const std::int64_t each = joint ? transitions() : 1;
  std::vector<MarCondition> out(inputs.size());
  std::vector<float> sums;
  std::vector<float*> to;
  const auto add = [&](const float* condition, std::vector<float>& modulations) {
    modulations.resize(static_cast<std::size_t>(each * pieces_width_));
    for (std::int64_t t = 0; t < each; ++t) {
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(t * width + j);
        sums.push_back(joint ? times_[at] + condition[j] : condition[j]);
      }
      to.push_back(modulations.data() + t * pieces_width_);
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs[i];
    out[i].guidance_ = in.guidance;
    add(in.condition, out[i].given_);
    if (in.null_condition != nullptr && in.guidance != 1.0) add(in.null_condition, out[i].none_);
  }
  modulate(sums, to);
  return out;
}

// Items [first, last) through the whole head. `each` as in MarNetwork::run_rows.
template <class Each>
void MarHead::run_rows(Pass& pass, std::int64_t first, std::int64_t last, const Each& each) const {
  const rows::Kernels& k = rows::kernels();
  const std::int64_t w = network_->config().head_width, n = last - first, mods = pieces_width_;
  const std::int64_t dim = network_->config().dim(), outputs = network_->output_.columns();
  float *const h = pass.h + first * w, *const x = pass.x + first * w, *const y = pass.y + first * w;
  const bool bf16 = network_->precision_ == HeadPrecision::kBF16;
  std::uint16_t* const half_x = bf16 ? pass.half_x + first * w : nullptr;
  std::uint16_t* const half_y = bf16 ? pass.half_y + first * w : nullptr;
  const auto item = [&](std::int64_t r) -> const Pass::Item& {
    return pass.items[static_cast<std::size_t>(first + r)];
  };
  const auto modulation = [&](std::int64_t r) {
    return item(r).time == nullptr ? item(r).modulation : pass.m + (first + r) * mods;
  };
  const auto to_bf16 = forerun::kernels().round_to_bf16;
  const auto each_row = [&](const auto& work) {
    each(n, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) work(r);
    });
  };
  const auto product = [&](const HeadMatrix& m, const float* in, const std::uint16_t* half,
                           float* out, const auto& then) {
    each(m.panels(), 64 / m.panel(), [&](std::int64_t begin, std::int64_t end) {
      m.multiply({in, half, out, n}, begin, end);
      const std::int64_t from = begin * m.panel();
      const std::int64_t width = std::min(end * m.panel(), m.columns()) - from;
      for (std::int64_t r = 0; r < n; ++r) then(r, from, width, out + r * m.columns() + from);
    });
  };
  const auto norm = [&](std::int64_t r, std::int64_t piece, const float* weight,
                        const float* bias) {
    const float* const m = modulation(r) + piece * w;
    k.norm({.x = h + r * w,
            .dim = w,
            .eps = kHeadNormEps,
            .weight = weight,
            .bias = bias,
            .shift = m,
            .scale = m + w,
            .out = x + r * w});
    if (bf16) to_bf16(x + r * w, w, 1.0F, half_x + r * w);
  };

  each_row([&](std::int64_t r) {
    if (item(r).time != nullptr) {
      k.add(item(r).modulation, item(r).time, mods, pass.m + (first + r) * mods);
    }
    network_->head_input_.multiply({item(r).state, dim, h + r * w, w, 1});
  });
  std::int64_t piece = 0;
  for (const MarNetwork::HeadBlock& b : network_->head_blocks_) {
    each_row([&](std::int64_t r) { norm(r, piece, b.norm_weight.data(), b.norm_bias.data()); });
    product(b.in, x, half_x, y,
            [&](std::int64_t r, std::int64_t from, std::int64_t width, float* out) {
              k.silu(out, width);
              if (bf16) to_bf16(out, width, 1.0F, half_y + r * w + from);
            });
    product(b.out, y, half_y, x,
            [&](std::int64_t r, std::int64_t from, std::int64_t width, float* out) {
              k.add_gated(modulation(r) + (piece + 2) * w + from, out, width, h + r * w + from);
            });
    piece += 3;
  }
  each_row([&](std::int64_t r) { norm(r, piece, nullptr, nullptr); });
  product(network_->output_, x, half_x, pass.out + first * outputs, [](auto...) {});
}

// From what the networks predict to the mean, in float64.
void MarHead::finish(const Row& row, const float* given, const float* none, float* mean,
                     float* sigma) const {
  const MarConfig& c = network_->config();
  const MarStep& s = schedule_.step(row.transition);
  const double scale = row.condition->guidance_;
  for (std::int64_t i = 0; i < c.dim(); ++i) {
    double y = static_cast<double>(given[i]);
    if (none != nullptr)
      y = static_cast<double>(none[i]) + scale * (y - static_cast<double>(none[i]));
    const double x = static_cast<double>(row.state[i]);
    double x0 = s.x0_x * x + s.x0_output * y;
    if (c.bounded()) x0 = std::clamp(x0, c.x0_low, c.x0_high);
    mean[i] = static_cast<float>(s.posterior_x0 * x0 + s.posterior_x * x);
    if (sigma == nullptr) continue;
    const double share = (static_cast<double>(given[c.dim() + i]) + 1.0) / 2.0;
    const double log_variance = share * s.log_beta + (1.0 - share) * s.log_posterior;
    sigma[i] = s.sigma == 0.0
                   ? 0.0F
                   : static_cast<float>(sampling_.temperature * std::exp(0.5 * log_variance));
  }
}

MarHead::Output MarHead::run(std::span<const Row> rows) const {
  const MarConfig& c = network_->config();
  const bool separate = c.modulation == MarModulation::kSeparate;
  const std::int64_t w = c.head_width, outputs = network_->output_.columns();
  thread_local Pass pass;  // of the caller: its room is reused
  pass.items.clear();
  for (const Row& row : rows) {
    if (row.transition < 0 || row.transition >= transitions()) {
      throw std::invalid_argument("a transition that the schedule has not got");
    }
    const std::int64_t at = row.transition * pieces_width_;
    const float* const time = separate ? times_.data() + at : nullptr;
    const auto add = [&](const std::vector<float>& m) {
      pass.items.push_back({separate ? m.data() : m.data() + at, time, row.state});
    };
    add(row.condition->given_);
    if (row.condition->guided()) add(row.condition->none_);
  }
  const auto n = static_cast<std::int64_t>(pass.items.size());
  Output out;
  out.means.resize(rows.size() * static_cast<std::size_t>(c.dim()));
  if (learned_sigma()) out.sigmas.resize(out.means.size());
  if (n == 0) return out;
  pass.h = room_of(pass.hidden, n * w);
  pass.x = room_of(pass.normed, n * w);
  pass.y = room_of(pass.products, n * w);
  pass.m = room_of(pass.modulations, separate ? n * pieces_width_ : 0);
  pass.out = room_of(pass.outputs, n * outputs);
  if (network_->precision_ == HeadPrecision::kBF16) {
    pass.half_x = pass.halves.room_for(static_cast<std::size_t>(2 * n * w));
    pass.half_y = pass.half_x + n * w;
  }

  const auto alone = [](std::int64_t items, std::int64_t, const auto& work) { work(0, items); };
  const double work = static_cast<double>(n) * mar_head_work(c).transition;
  const int threads = work < kWorthTwo ? 1 : at::get_num_threads();
  Pass& shared = pass;  // the helpers have their own thread_local
  if (threads > 1 && n < 2 * threads) {
    // Few rows: the threads share the outputs of every product.
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& worker) {
      run_rows(shared, 0, n,
               [&](auto items, auto grain, const auto& f) { worker.each(items, grain, f); });
    });
  } else if (threads > 1) {
    const std::int64_t grain = std::min(kRowsAtOnce, (n + threads - 1) / threads);
    ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& worker) {
      worker.each(n, grain, [&](std::int64_t first, std::int64_t last) {
        run_rows(shared, first, last, alone);
      });
    });
  } else {
    for (std::int64_t i = 0; i < n; i += kRowsAtOnce) {
      run_rows(pass, i, std::min(n, i + kRowsAtOnce), alone);
    }
  }
  std::int64_t at = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const float* const given = pass.out + at++ * outputs;
    const float* const none = rows[r].condition->guided() ? pass.out + at++ * outputs : nullptr;
    const std::size_t to = r * static_cast<std::size_t>(c.dim());
    finish(rows[r], given, none, out.means.data() + to,
           learned_sigma() ? out.sigmas.data() + to : nullptr);
  }
  return out;
}

}  // namespace forerun
