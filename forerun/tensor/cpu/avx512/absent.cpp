// Stubs for other processors: cpu_features().int8() is false there, and nothing calls them.
#if !defined(__x86_64__)

#include <cstdlib>

#include "forerun/tensor/cpu/avx512/int8_attention.h"

namespace forerun::avx512 {

void hadamard_row(float*, std::int64_t, std::int64_t) { std::abort(); }
void rotate_row(float*, std::int64_t) { std::abort(); }
Rounded round_to_int8(const float*, std::int64_t, std::int8_t*) { std::abort(); }
void quantize_row(const float*, std::int64_t, const Int8Rows&, std::int64_t, float*) {
  std::abort();
}
void norm_quantize_row(const float*, const float*, float, std::int64_t, const Int8Rows&,
                       std::int64_t, float*) {
  std::abort();
}
void key_product(const KeyProduct&) { std::abort(); }
SoftmaxPart weigh_row(float*, float, const float*, const Seen&, std::int64_t, std::uint8_t*,
                      float*) {
  std::abort();
}
void value_product(const ValueProduct&) { std::abort(); }
void rms_norm_row(const float*, const float*, float, std::int64_t, float*) { std::abort(); }
void add_row(const float*, std::int64_t, float*) { std::abort(); }
void rotate_row(float*, const float*, const float*, std::int64_t) { std::abort(); }
void silu_gate_row(const float*, const float*, std::int64_t, float*) { std::abort(); }
void gelu_gate_row(const float*, const float*, std::int64_t, float*) { std::abort(); }
void layer_norm_modulate_row(const float*, const float*, const float*, float, std::int64_t,
                             std::uint16_t*) {
  std::abort();
}
void gelu_row(const float*, std::int64_t, std::uint16_t*) { std::abort(); }
void add_gated_row(const float*, const float*, std::int64_t, float*) { std::abort(); }
void pair_rows(const float*, const float*, std::int64_t, std::uint16_t*) { std::abort(); }
void int8_panel(const Int8Panels&, std::int64_t, const Int8Rows&, std::int64_t, float*,
                std::int64_t, std::int64_t, bool, const std::uint8_t*) {
  std::abort();
}
void pair_product_emulated(const PairProduct&) { std::abort(); }
void pair_product_native(const PairProduct&) { std::abort(); }
SoftmaxPart exp_row(const float*, std::int64_t, std::uint16_t*) { std::abort(); }
void merge_softmax(float*, SoftmaxPart*, const float*, const SoftmaxPart&, std::int64_t) {
  std::abort();
}
void scale_row(float*, std::int64_t, float) { std::abort(); }
void round_to_bf16(const float*, std::int64_t, float, std::uint16_t*) { std::abort(); }
void widen_bf16(const std::uint16_t*, std::int64_t, float, float*) { std::abort(); }

}  // namespace forerun::avx512

#endif
