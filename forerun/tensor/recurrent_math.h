#pragma once

#include <cstdint>

/// Loops of recurrent layers in float32. Each is compiled for several kinds of x86-64 processors,
/// and the loader chooses; the bits are the same on all of them, whatever the other rows.
namespace forerun::recurrent {

/// One step of a matrix [keys, values] along a text, in one pass over its memory: the row before is
/// added, matrix = decay * matrix + key delta^T, then a row reads it. It is stored in blocks of 32
/// columns, and one of 16 if need be: [values / 32][keys][32].
struct Step {
  const float* from;
  float* to;                  ///< the matrix with the row before; may be `from`; null: not kept
  std::int64_t keys, values;  ///< values: a multiple of 16
  const float* key;           ///< [keys] of the row before; null: there is none
  const float* delta;         ///< [values]
  float decay;
  const float *own_key, *query;  ///< [keys] of the row that reads; null: none does
  float *by_key, *by_query;      ///< [values]: own_key^T matrix, query^T matrix
};
void step(const Step& s);

/// sum of a[i] b[i], in 16 running sums.
float dot(const float* a, const float* b, std::int64_t n);
/// x = scale * x / sqrt(sum of squares + eps).
void unit_length(float* x, std::int64_t n, float eps, float scale);
/// out = (base + sum over taps of weights[tap, i] * inputs[tap][i]), in the order of taps.
/// @param weights  [taps, stride]; base: [n] or null
void convolve(const float* const* inputs, const float* weights, std::int64_t stride,
              std::int64_t taps, const float* base, std::int64_t n, float* out);
void multiply(const float* a, const float* b, std::int64_t n, float* out);  ///< a * b
void silu(float* x, std::int64_t n);                                        ///< in place
/// x = x / rms(x) * w.
void rms_norm(float* x, const float* w, std::int64_t n, double eps);
void silu_gate(const float* gate, std::int64_t n, float* x);  ///< x *= silu(gate)
/// x *= sigmoid(gate)
void sigmoid_gate(const float* gate, std::int64_t n, float* x);
/// What a row changes and reads: delta = beta * (value - decay * by_key),
/// out = decay * by_query + along * delta.
/// @param along  own key times query
/// @param out    may be `value`
struct Change {
  const float *value, *by_key, *by_query;
  float beta, decay, along;
  float *delta, *out;  ///< [n]
};
void change(const Change& c, std::int64_t n);

}  // namespace forerun::recurrent
