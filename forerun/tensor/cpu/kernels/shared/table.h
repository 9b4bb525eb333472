#pragma once

// The kernels of one kind of vectors, after their definitions or declarations.

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/hadamard.h"
#include "forerun/tensor/cpu/kernels/shared/rows.h"
#include "forerun/tensor/cpu/kernels/shared/softmax.h"
#include "forerun/tensor/cpu/kernels/shared/weigh_row.h"

namespace forerun::FORERUN_KERNELS {

void int8_panel(const kernel::Int8Panels& w, std::int64_t panel, const Int8Rows& x,
                std::int64_t rows, float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);
void int4_panel(const kernel::Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                std::int64_t rows, float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);
void key_product(const kernel::KeyProduct& p);
void value_product(const kernel::ValueProduct& p);
void pair_product_emulated(const kernel::PairProduct& p);

extern const Kernels kKernels;
const Kernels kKernels{.name = kName,
                       .needs_halves = kNeedsHalves,
                       .streams = kStreams,
                       .hadamard_row = &hadamard_row,
                       .rotate_row = &rotate_row,
                       .round_to_int8 = &round_to_int8,
                       .round_head = &round_head,
                       .turn_head_back = &turn_head_back,
                       .quantize_row = &quantize_row,
                       .norm_quantize_row = &norm_quantize_row,
                       .rms_norm_row = &rms_norm_row,
                       .dot_rows = &dot_rows,
                       .add_row = &add_row,
                       .scale_row = &scale_row,
                       .rope_row = &rope_row,
                       .silu_gate_row = &silu_gate_row,
                       .gelu_gate_row = &gelu_gate_row,
                       .clamped_gate_row = &clamped_gate_row,
                       .int8_panel = &int8_panel,
                       .int4_panel = &int4_panel,
                       .key_product = &key_product,
                       .weigh_row = &weigh_row,
                       .value_product = &value_product,
                       .merge_softmax = &merge_softmax,
                       .round_to_bf16 = &round_to_bf16,
                       .widen_bf16 = &widen_bf16,
                       .layer_norm_modulate_row = &layer_norm_modulate_row,
                       .gelu_row = &gelu_row,
                       .add_gated_row = &add_gated_row,
                       .pair_rows = &pair_rows,
                       .exp_row = &exp_row,
                       .pair_product = &pair_product_emulated};

}  // namespace forerun::FORERUN_KERNELS
