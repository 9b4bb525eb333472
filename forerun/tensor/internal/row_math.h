#pragma once

#include <cstdint>

/// Arithmetic of one row of training's fused operations. In float32 each loop is compiled for
/// several kinds of x86-64 processors, and the loader chooses; the bits are the same on all of
/// them. float64 serves the checks of gradients.
namespace forerun::internal {

template <class W>
struct RowLoss {
  W loss, overlap;
  std::int64_t best;  ///< the first of the largest logits
};

/// Rows of bfloat16, by their bits.
void load_row(const std::uint16_t* from, std::int64_t n, float* to);
void store_row(const float* from, std::int64_t n, std::uint16_t* to);

/// x = x / rms(x) * w.
void rms_norm(float* x, const float* w, std::int64_t n, double eps);
void rms_norm(double* x, const double* w, std::int64_t n, double eps);
/// The gradient of its result, dy, becomes that of x; that of w is added to dw.
void rms_norm_backward(const float* x, const float* w, std::int64_t n, double eps, float* dy,
                       float* dw);
void rms_norm_backward(const double* x, const double* w, std::int64_t n, double eps, double* dy,
                       double* dw);
/// Pairs (x[j], x[j + half]) turned by their angles, backward for sign -1.
void rotate(float* x, const float* cos, const float* sin, std::int64_t half, float sign);
void rotate(double* x, const double* cos, const double* sin, std::int64_t half, double sign);
/// up = silu(gate) * up.
void swiglu(const float* gate, float* up, std::int64_t n);
void swiglu(const double* gate, double* up, std::int64_t n);
/// gate and up become their gradients.
void swiglu_backward(float* gate, float* up, const float* dy, std::int64_t n);
void swiglu_backward(double* gate, double* up, const double* dy, std::int64_t n);
/// In the tanh form.
void gelu(float* x, std::int64_t n);
void gelu(double* x, std::int64_t n);
/// x becomes its gradient.
void gelu_backward(float* x, const float* dy, std::int64_t n);
void gelu_backward(double* x, const double* dy, std::int64_t n);
/// x = softmax(scale * x).
void softmax(float* x, std::int64_t n, float scale);
void softmax(double* x, std::int64_t n, double scale);
/// The gradient of the probabilities p, d, becomes that of x.
void softmax_backward(const float* p, float* d, std::int64_t n, float scale);
void softmax_backward(const double* p, double* d, std::int64_t n, double scale);
/// x = (x - mean) / sqrt(variance + eps) * (1 + scale) + shift.
void norm_modulate(float* x, const float* scale, const float* shift, std::int64_t n, double eps);
void norm_modulate(double* x, const double* scale, const double* shift, std::int64_t n, double eps);
/// dy becomes the gradient of x; those of scale and shift are added. x is used up.
void norm_modulate_backward(float* x, const float* scale, std::int64_t n, double eps, float* dy,
                            float* dscale, float* dshift);
void norm_modulate_backward(double* x, const double* scale, std::int64_t n, double eps, double* dy,
                            double* dscale, double* dshift);
/// x += gate * y.
void gated_sum(float* x, const float* gate, const float* y, std::int64_t n);
void gated_sum(double* x, const double* gate, const double* y, std::int64_t n);
/// dx becomes the gradient of y; that of the gate is added to dgate.
void gated_sum_backward(float* dx, const float* gate, const float* y, std::int64_t n, float* dgate);
void gated_sum_backward(double* dx, const double* gate, const double* y, std::int64_t n,
                        double* dgate);
/// Loss of one row of logits, which become their gradient; see mixed_cross_entropy.h.
/// @param l1  the law's loss is a distance, not a cross-entropy
RowLoss<float> cross_entropy(float* x, const float* law, std::int64_t n, float covered,
                             std::int64_t label, float weight, float share, bool l1);
RowLoss<double> cross_entropy(double* x, const double* law, std::int64_t n, double covered,
                              std::int64_t label, double weight, double share, bool l1);

}  // namespace forerun::internal
