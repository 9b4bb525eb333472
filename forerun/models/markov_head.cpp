#include "forerun/models/markov_head.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "forerun/models/int8_block.h"
#include "forerun/models/internal/bf16_dots.h"
#include "forerun/models/internal/dot.h"
#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/huge_table.h"

namespace forerun {

MarkovHead::MarkovHead(const at::Tensor& w1, const at::Tensor& w2, Precision precision,
                       const at::Tensor& gate) {
  if (!w1.defined()) return;
  w1_ = huge_table(w1, at::kFloat);
  w2_ = plain_values(w2);
  gate_ = plain_values(gate);
  if (precision != Precision::kInt8) return;
  Arena arena(std::size_t{16} << 20);
  int8_ = Int8Matrix::pack(w2_, {}, arena);
  const at::Tensor halves = w2_.to(at::kBFloat16);
  const bool exact = halves.to(at::kFloat).equal(w2_);
  w2_ = huge_table(exact ? halves : w2_, exact ? at::kBFloat16 : at::kFloat);
}

std::span<const float> MarkovHead::before(Token previous) const {
  const auto rank = static_cast<std::size_t>(w1_.size(1));
  return {w1_.const_data_ptr<float>() + static_cast<std::size_t>(previous) * rank, rank};
}

std::span<const float> MarkovHead::row(Token previous, std::span<const float> state) const {
  const std::span<const float> from = before(previous);
  if (!gate_.defined()) return from;
  thread_local std::vector<float> gated;
  gated.resize(from.size());
  const float* weights = gate_.const_data_ptr<float>();
  for (std::size_t i = 0; i < from.size(); ++i, weights += from.size()) {
    gated[i] = from[i] / (1.0F + std::exp(-(state[i] + internal::dot(from, weights))));
  }
  return gated;
}

void MarkovHead::add(Token previous, std::span<float> logits, std::span<const float> state) const {
  const std::span<const float> from = row(previous, state);
  const auto rank = static_cast<std::int64_t>(from.size());
  if (int8_.outputs() > 0) {
    thread_local Int8Activations activations;
    thread_local AlignedBuffer<float> work;
    const kernel::Int8Rows x = activations.room_for(1, rank);
    kernels().quantize_row(from.data(), rank, x, 0,
                           work.room_for(static_cast<std::size_t>(x.width)));
    int8_.multiply(0, int8_.panels(), x, 1, logits.data(), int8_.outputs(), true);
    return;
  }
  const float* to = w2_.const_data_ptr<float>();
  for (float& logit : logits) {
    logit += internal::dot(from, to);
    to += rank;
  }
}

void MarkovHead::add(Token previous, std::span<const std::int32_t> ids, std::span<float> add,
                     std::span<const float> state) const {
  const std::span<const float> from = row(previous, state);
  if (w2_.scalar_type() == at::kBFloat16) {
    const auto* table = reinterpret_cast<const std::uint16_t*>(w2_.const_data_ptr<at::BFloat16>());
    internal::add_dots(from, table, ids, add);
    return;
  }
  const float* to = w2_.const_data_ptr<float>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    add[i] += internal::dot(from, to + static_cast<std::size_t>(ids[i]) * from.size());
  }
}

}  // namespace forerun
