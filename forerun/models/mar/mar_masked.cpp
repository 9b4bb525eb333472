#include "forerun/models/mar/mar_masked.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace forerun {
namespace {

void check_masked(const Mar& m, const at::Tensor& tokens, const at::Tensor& known,
                  const at::Tensor& label) {
  const MarConfig& c = m.config;
  const std::int64_t batch = tokens.dim() == 3 ? tokens.size(0) : -1;
  if (c.form == MarForm::kMasked && batch > 0 && tokens.size(1) == c.tokens() &&
      tokens.size(2) == c.dim() && known.dim() == 2 && known.size(0) == batch &&
      known.size(1) == c.tokens() && label.dim() == 1 && label.size(0) == batch) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "a masked network of {} tokens of {} takes [batch, tokens, dim], [batch, tokens] and [batch]",
      c.tokens(), c.dim()));
}

// Rows that stay, [batch, n, hidden] positions for gather: the buffer's, then the known tokens'.
at::Tensor rows_that_stay(const MarConfig& c, const at::Tensor& known) {
  const std::int64_t batch = known.size(0);
  const at::Tensor count = known.sum(1);
  if (!count.eq(count[0]).all().item<bool>()) {
    throw std::invalid_argument("the images of a batch must have as many known tokens");
  }
  const at::Tensor keep = at::cat({at::ones({batch, c.buffer}, at::kBool), known.to(at::kBool)}, 1);
  const std::int64_t n = c.buffer + count[0].item<std::int64_t>();
  return keep.nonzero().select(1, 1).view({batch, n, 1}).expand({batch, n, c.hidden});
}

}  // namespace

at::Tensor run_masked(const Mar& m, const at::Tensor& tokens, const at::Tensor& known,
                      const at::Tensor& label) {
  check_masked(m, tokens, known, label);
  const MarConfig& c = m.config;
  const std::int64_t batch = tokens.size(0), rows = c.buffer + c.tokens();
  const at::Tensor stay = rows_that_stay(c, known);
  const at::Tensor of_class = at::cat({m.classes, m.none}).index_select(0, label).unsqueeze(1);
  at::Tensor h = at::cat({of_class.expand({batch, c.buffer, c.hidden}), m.input(tokens)}, 1);
  h = m.input_norm(h + m.encoder_positions).gather(1, stay);
  for (const MarBlock& block : m.encoder) h = run_block(block, c, h, false);
  h = m.decoder_input(m.encoder_norm(h));
  // Under autocast the product before it is in bf16.
  h = m.mask.expand({batch, rows, c.hidden}).scatter(1, stay, h.to(m.mask.scalar_type())) +
      m.decoder_positions;
  for (const MarBlock& block : m.decoder) h = run_block(block, c, h, false);
  return m.decoder_norm(h).narrow(1, c.buffer, c.tokens()) + m.head_positions;
}

std::vector<std::int64_t> unknown_after(std::int64_t tokens, std::int64_t steps) {
  if (steps < 1 || steps > tokens) {
    throw std::invalid_argument(
        fmt::format("{} steps for {} tokens: 1 to as many steps as tokens", steps, tokens));
  }
  std::vector<std::int64_t> out;
  std::int64_t before = tokens;
  for (std::int64_t s = 0; s + 1 < steps; ++s) {
    const double share =
        std::cos(std::numbers::pi / 2.0 * static_cast<double>(s + 1) / static_cast<double>(steps));
    const auto wanted = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * share));
    out.push_back(before = std::max<std::int64_t>(1, std::min(before - 1, wanted)));
  }
  out.push_back(0);
  return out;
}

std::vector<std::int64_t> random_order(std::int64_t tokens, const RngKey& key) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tokens));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  for (std::size_t i = out.size(); i > 1; --i) {  // Fisher and Yates
    const double u = key.uniform(Purpose::kTarget, static_cast<std::uint32_t>(i));
    std::swap(out[i - 1], out[static_cast<std::size_t>(u * static_cast<double>(i))]);
  }
  return out;
}

double guidance_after(const MaskedSampling& o, std::int64_t unknown, std::int64_t tokens) {
  if (o.schedule == MarGuidance::kConstant) return o.guidance;
  const auto left = static_cast<double>(std::max<std::int64_t>(unknown, 1));
  return 1.0 + (o.guidance - 1.0) * (1.0 - left / static_cast<double>(tokens));
}

namespace {

// One step's chains, all tokens of all images together.
class MaskedChains {
 public:
  struct Place {
    std::int64_t image, token;
  };
  MaskedChains(const MarNetwork& network, const MarHead& head, std::vector<Place> places)
      : network_(network), head_(head), places_(std::move(places)) {}

  // z, none [images, tokens, hidden]; none may be undefined.
  void run(const at::Tensor& z, const at::Tensor& none, double guidance, std::int64_t step,
           const MarNoise& noise, at::Tensor& tokens) const {
    const std::vector<float> given = conditions(z);
    const std::vector<float> without = none.defined() ? conditions(none) : std::vector<float>();
    const auto width = static_cast<std::size_t>(network_.condition_width());
    std::vector<MarHead::Input> inputs;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      inputs.push_back({given.data() + i * width,
                        without.empty() ? nullptr : without.data() + i * width, guidance});
    }
    const std::vector<MarCondition> prepared = head_.prepare(inputs);
    const std::vector<float> states = chain(prepared, step, noise);
    const auto dim = static_cast<std::size_t>(head_.dim());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::copy_n(states.data() + i * dim, dim,
                  tokens[places_[i].image][places_[i].token].data_ptr<float>());
    }
  }

 private:
  std::vector<float> conditions(const at::Tensor& z) const {
    std::vector<at::Tensor> rows;
    for (const Place& p : places_) rows.push_back(z[p.image][p.token]);
    const at::Tensor all = at::stack(rows).contiguous();
    return network_.conditions_of(
        {all.const_data_ptr<float>(), static_cast<std::size_t>(all.numel())});
  }

  std::vector<float> chain(std::span<const MarCondition> prepared, std::int64_t step,
                           const MarNoise& noise) const {
    const auto dim = static_cast<std::size_t>(head_.dim());
    std::vector<float> x(places_.size() * dim), xi(dim);
    const auto fill = [&](std::size_t i, std::int64_t transition, std::span<float> out) {
      noise(places_[i].image, step, places_[i].token, transition, out);
    };
    for (std::size_t i = 0; i < places_.size(); ++i)
      fill(i, -1, std::span(x).subspan(i * dim, dim));
    for (std::int64_t k = 0; k < head_.transitions(); ++k) {
      std::vector<MarHead::Row> rows;
      for (std::size_t i = 0; i < places_.size(); ++i) {
        rows.push_back({&prepared[i], x.data() + i * dim, k});
      }
      const MarHead::Output next = head_.run(rows);
      const bool still = head_.sigma(k) == 0.0;
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (!still) fill(i, k, xi);
        for (std::size_t j = 0; j < dim; ++j) {
          const std::size_t at = i * dim + j;
          const float sigma =
              next.sigmas.empty() ? static_cast<float>(head_.sigma(k)) : next.sigmas[at];
          x[at] = still ? next.means[at] : next.means[at] + sigma * xi[j];
        }
      }
    }
    return x;
  }

  const MarNetwork& network_;
  const MarHead& head_;
  std::vector<Place> places_;
};

void check_orders(const MarConfig& c, std::span<const std::int64_t> labels,
                  std::span<const std::vector<std::int64_t>> orders) {
  if (labels.empty() || labels.size() != orders.size()) {
    throw std::invalid_argument("as many orders as labels, at least one");
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::int64_t> sorted = orders[i];
    std::sort(sorted.begin(), sorted.end());
    bool whole = static_cast<std::int64_t>(sorted.size()) == c.tokens();
    for (std::size_t t = 0; whole && t < sorted.size(); ++t) {
      whole = sorted[t] == static_cast<std::int64_t>(t);
    }
    if (!whole || labels[i] < 0 || labels[i] > c.classes) {
      throw std::invalid_argument(fmt::format("image {}: an order of {} tokens and a class of {}",
                                              i, c.tokens(), c.classes));
    }
  }
}

}  // namespace

at::Tensor sample_masked(const Mar& model, const MarNetwork& network, const MarHead& head,
                         std::span<const std::int64_t> labels,
                         std::span<const std::vector<std::int64_t>> orders,
                         const MaskedSampling& sampling, const MarNoise& noise,
                         const std::function<void(const at::Tensor&)>& show) {
  const c10::InferenceMode no_autograd;
  const MarConfig& c = model.config;
  check_orders(c, labels, orders);
  const auto images = static_cast<std::int64_t>(labels.size());
  at::Tensor tokens = at::zeros({images, c.tokens(), c.dim()}, at::kFloat);
  at::Tensor known = at::zeros({images, c.tokens()}, at::kBool);
  const at::Tensor label =
      at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()), at::kLong);
  const at::Tensor no_class = at::full({images}, c.classes, at::kLong);
  std::int64_t before = c.tokens(), step = 0;
  for (const std::int64_t after : unknown_after(c.tokens(), sampling.steps)) {
    std::vector<MaskedChains::Place> places;
    for (std::int64_t i = 0; i < images; ++i) {
      for (std::int64_t at = after; at < before; ++at) {
        places.push_back({i, orders[static_cast<std::size_t>(i)][static_cast<std::size_t>(at)]});
      }
    }
    const double scale = guidance_after(sampling, after, c.tokens());
    const at::Tensor z = run_masked(model, tokens, known, label);
    at::Tensor none;
    if (scale != 1.0) none = run_masked(model, tokens, known, no_class);
    for (const auto& p : places) known[p.image][p.token] = true;
    MaskedChains(network, head, std::move(places)).run(z, none, scale, step++, noise, tokens);
    before = after;
    if (show) show(tokens);
  }
  return tokens;
}

}  // namespace forerun
