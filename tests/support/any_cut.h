#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "tests/support/tiny_models.h"

namespace forerun {

/// Passes of each of these numbers of tokens, on one thread and on three, have the logits of one
/// pass over the text, bit for bit.
inline void expect_any_cut_is_whole(const DecoderLm& model, const std::vector<Token>& text,
                                    std::initializer_list<std::size_t> steps) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  KvCache whole_cache = model.make_cache();
  const at::Tensor whole = pass(model, whole_cache, text);
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    for (const std::size_t step : steps) {
      KvCache cache = model.make_cache();
      for (std::size_t i = 0; i < text.size(); i += step) {
        const std::size_t n = std::min(step, text.size() - i);
        const at::Tensor out = pass(model, cache, std::span(text).subspan(i, n));
        ASSERT_TRUE(at::equal(out, whole.narrow(0, static_cast<std::int64_t>(i), out.size(0))))
            << threads << " threads, steps of " << step << ", at " << i;
      }
    }
  }
  at::set_num_threads(before);
}

}  // namespace forerun
