#include "forerun/tensor/internal/row_math.h"

#include "forerun/base/vector_clones.h"
#include "forerun/tensor/internal/row_math_loops.h"

namespace forerun::internal {

FORERUN_VECTOR_CLONES void load_row(const std::uint16_t* from, std::int64_t n, float* to) {
  loops::load_row(from, n, to);
}
FORERUN_VECTOR_CLONES void store_row(const float* from, std::int64_t n, std::uint16_t* to) {
  loops::store_row(from, n, to);
}

FORERUN_VECTOR_CLONES void rms_norm(float* x, const float* w, std::int64_t n, double eps) {
  loops::rms_norm(x, w, n, eps);
}
void rms_norm(double* x, const double* w, std::int64_t n, double eps) {
  loops::rms_norm(x, w, n, eps);
}

FORERUN_VECTOR_CLONES void rms_norm_backward(const float* x, const float* w, std::int64_t n,
                                             double eps, float* dy, float* dw) {
  loops::rms_norm_backward(x, w, n, eps, dy, dw);
}
void rms_norm_backward(const double* x, const double* w, std::int64_t n, double eps, double* dy,
                       double* dw) {
  loops::rms_norm_backward(x, w, n, eps, dy, dw);
}

FORERUN_VECTOR_CLONES void rotate(float* x, const float* cos, const float* sin, std::int64_t half,
                                  float sign) {
  loops::rotate(x, cos, sin, half, sign);
}
void rotate(double* x, const double* cos, const double* sin, std::int64_t half, double sign) {
  loops::rotate(x, cos, sin, half, sign);
}

FORERUN_VECTOR_CLONES void swiglu(const float* gate, float* up, std::int64_t n) {
  loops::swiglu(gate, up, n);
}
void swiglu(const double* gate, double* up, std::int64_t n) { loops::swiglu(gate, up, n); }

FORERUN_VECTOR_CLONES void swiglu_backward(float* gate, float* up, const float* dy,
                                           std::int64_t n) {
  loops::swiglu_backward(gate, up, dy, n);
}
void swiglu_backward(double* gate, double* up, const double* dy, std::int64_t n) {
  loops::swiglu_backward(gate, up, dy, n);
}

FORERUN_VECTOR_CLONES void gelu(float* x, std::int64_t n) { loops::gelu(x, n); }
void gelu(double* x, std::int64_t n) { loops::gelu(x, n); }

FORERUN_VECTOR_CLONES void gelu_backward(float* x, const float* dy, std::int64_t n) {
  loops::gelu_backward(x, dy, n);
}
void gelu_backward(double* x, const double* dy, std::int64_t n) { loops::gelu_backward(x, dy, n); }

FORERUN_VECTOR_CLONES void softmax(float* x, std::int64_t n, float scale) {
  loops::softmax(x, n, scale);
}
void softmax(double* x, std::int64_t n, double scale) { loops::softmax(x, n, scale); }

FORERUN_VECTOR_CLONES void softmax_backward(const float* p, float* d, std::int64_t n, float scale) {
  loops::softmax_backward(p, d, n, scale);
}
void softmax_backward(const double* p, double* d, std::int64_t n, double scale) {
  loops::softmax_backward(p, d, n, scale);
}

FORERUN_VECTOR_CLONES void norm_modulate(float* x, const float* scale, const float* shift,
                                         std::int64_t n, double eps) {
  loops::norm_modulate(x, scale, shift, n, eps);
}
void norm_modulate(double* x, const double* scale, const double* shift, std::int64_t n,
                   double eps) {
  loops::norm_modulate(x, scale, shift, n, eps);
}

FORERUN_VECTOR_CLONES void norm_modulate_backward(float* x, const float* scale, std::int64_t n,
                                                  double eps, float* dy, float* dscale,
                                                  float* dshift) {
  loops::norm_modulate_backward(x, scale, n, eps, dy, dscale, dshift);
}
void norm_modulate_backward(double* x, const double* scale, std::int64_t n, double eps, double* dy,
                            double* dscale, double* dshift) {
  loops::norm_modulate_backward(x, scale, n, eps, dy, dscale, dshift);
}

FORERUN_VECTOR_CLONES void gated_sum(float* x, const float* gate, const float* y, std::int64_t n) {
  loops::gated_sum(x, gate, y, n);
}
void gated_sum(double* x, const double* gate, const double* y, std::int64_t n) {
  loops::gated_sum(x, gate, y, n);
}

FORERUN_VECTOR_CLONES void gated_sum_backward(float* dx, const float* gate, const float* y,
                                              std::int64_t n, float* dgate) {
  loops::gated_sum_backward(dx, gate, y, n, dgate);
}
void gated_sum_backward(double* dx, const double* gate, const double* y, std::int64_t n,
                        double* dgate) {
  loops::gated_sum_backward(dx, gate, y, n, dgate);
}

FORERUN_VECTOR_CLONES RowLoss<float> cross_entropy(float* x, const float* law, std::int64_t n,
                                                   float covered, std::int64_t label, float weight,
                                                   float share, bool l1) {
  return loops::cross_entropy(x, law, n, covered, label, weight, share, l1);
}
RowLoss<double> cross_entropy(double* x, const double* law, std::int64_t n, double covered,
                              std::int64_t label, double weight, double share, bool l1) {
  return loops::cross_entropy(x, law, n, covered, label, weight, share, l1);
}

}  // namespace forerun::internal
