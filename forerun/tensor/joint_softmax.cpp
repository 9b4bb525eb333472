#include "forerun/tensor/joint_softmax.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "forerun/tensor/internal/rows.h"
#include "forerun/tensor/parallel_for.h"

namespace forerun {
namespace {

using internal::load_row;
using internal::store_row;
using internal::wide;
using internal::Wide;
using internal::with_type;

// Row r of head h of a matrix.
template <class T>
T* row_of(const at::Tensor& m, std::int64_t h, std::int64_t r) {
  return m.mutable_data_ptr<T>() + h * m.stride(0) + r * m.size(2);
}

// The visible values of a row of n, zeros around them.
template <class T>
void store_seen(const Wide<T>* values, Visible seen, std::int64_t n, T* row) {
  std::fill(row, row + seen.begin, T(0));
  store_row(values, seen.end - seen.begin, row + seen.begin);
  std::fill(row + seen.end, row + n, T(0));
}

// f(left row, right row, visible ranges of both, room for both), for every row of every head.
template <class T, class F>
void for_each_row(const at::Tensor& left, const at::Tensor& right,
                  const std::vector<Visible>& left_seen, const std::vector<Visible>& right_seen,
                  std::int64_t group, F&& f) {
  const std::int64_t rows = right.size(1), n = left.size(2), m = right.size(2);
  parallel_for(0, right.size(0) * rows, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Wide<T>> room(static_cast<std::size_t>(2 * (n + m)));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t h = i / rows, r = i % rows;
      const auto place = static_cast<std::size_t>(r / group);
      f(h, r, left_seen[place], right_seen[place % right_seen.size()], room.data());
    }
  });
}

// For devices without our kernel: [1, rows, columns] bool, true where a column is visible.
at::Tensor mask_of(const std::vector<Visible>& seen, std::int64_t rows, std::int64_t columns,
                   std::int64_t group, const at::Device& device) {
  std::vector<std::int64_t> begin, end;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Visible& v = seen[static_cast<std::size_t>(r / group) % seen.size()];
    begin.push_back(v.begin);
    end.push_back(v.end);
  }
  const auto column = [&](const std::vector<std::int64_t>& x) {
    return at::tensor(x, at::kLong).to(device).view({1, rows, 1});
  };
  const at::Tensor at = at::arange(columns, device);
  return at.ge(column(begin)).logical_and(at.lt(column(end)));
}

}  // namespace

void joint_softmax_(const at::Tensor& left, const at::Tensor& right,
                    const std::vector<Visible>& left_seen, const std::vector<Visible>& right_seen,
                    std::int64_t group, double scale) {
  const std::int64_t n = left.size(2), m = right.size(2);
  if (!left.is_cpu()) {
    const at::Tensor seen = at::cat({mask_of(left_seen, left.size(1), n, group, left.device()),
                                     mask_of(right_seen, right.size(1), m, group, left.device())},
                                    -1);
    const at::Tensor weights =
        at::softmax(wide(at::cat({left, right}, -1))
                        .mul_(scale)
                        .masked_fill_(seen.logical_not(), -std::numeric_limits<double>::infinity()),
                    -1);
    left.copy_(weights.narrow(-1, 0, n));
    right.copy_(weights.narrow(-1, n, m));
    return;
  }
  with_type(left.scalar_type(), [&](auto tag) {
    using T = decltype(tag);
    using W = Wide<T>;
    const auto row = [&](std::int64_t h, std::int64_t r, Visible a, Visible b, W* x) {
      T *const l = row_of<T>(left, h, r), *const q = row_of<T>(right, h, r);
      const std::int64_t na = a.end - a.begin, count = na + b.end - b.begin;
      load_row(l + a.begin, na, x);
      load_row(q + b.begin, b.end - b.begin, x + na);
      internal::softmax(x, count, static_cast<W>(scale));
      store_seen(x, a, n, l);
      store_seen(x + na, b, m, q);
    };
    for_each_row<T>(left, right, left_seen, right_seen, group, row);
  });
}

void joint_softmax_backward_(const at::Tensor& left, const at::Tensor& right,
                             const at::Tensor& left_slope, const at::Tensor& right_slope,
                             const std::vector<Visible>& left_seen,
                             const std::vector<Visible>& right_seen, std::int64_t group,
                             double scale) {
  const std::int64_t n = left.size(2), m = right.size(2);
  if (!left.is_cpu()) {
    const at::Tensor p = wide(at::cat({left, right}, -1));
    const at::Tensor dp = wide(at::cat({left_slope, right_slope}, -1));
    const at::Tensor ds = p * (dp - (p * dp).sum(-1, true)) * scale;
    left_slope.copy_(ds.narrow(-1, 0, n));
    right_slope.copy_(ds.narrow(-1, n, m));
    return;
  }
  with_type(left.scalar_type(), [&](auto tag) {
    using T = decltype(tag);
    using W = Wide<T>;
    const auto row = [&](std::int64_t h, std::int64_t r, Visible a, Visible b, W* p) {
      T *const l = row_of<T>(left_slope, h, r), *const q = row_of<T>(right_slope, h, r);
      const std::int64_t na = a.end - a.begin, nb = b.end - b.begin, count = na + nb;
      W* const d = p + n + m;
      load_row(row_of<T>(left, h, r) + a.begin, na, p);
      load_row(row_of<T>(right, h, r) + b.begin, nb, p + na);
      load_row(l + a.begin, na, d);
      load_row(q + b.begin, nb, d + na);
      internal::softmax_backward(p, d, count, static_cast<W>(scale));
      store_seen(d, a, n, l);
      store_seen(d + na, b, m, q);
    };
    for_each_row<T>(left, right, left_seen, right_seen, group, row);
  });
}

}  // namespace forerun
