// Estimates against KenLM's: tests/data/ngram, made by tools/make_ngram_values.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "forerun/core/kneser_ney.h"
#include "forerun/formats/arpa.h"
#include "forerun/formats/safetensors.h"

namespace forerun {
namespace {

template <class Number>
std::vector<Number> values_of(const Safetensors& file, const char* name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error(name);
  std::vector<Number> out(view->bytes.size() / sizeof(Number));
  std::memcpy(out.data(), view->bytes.data(), view->bytes.size());
  return out;
}

TEST(KneserNeyValues, AreKenLms) {
  const Safetensors file =
      load_safetensors(FORERUN_SOURCE_DIR "/tests/data/ngram/values.safetensors");
  const std::vector<Token> tokens = values_of<Token>(file, "tokens");
  std::vector<std::span<const Token>> documents;
  std::size_t begin = 0;
  for (const std::int32_t end : values_of<std::int32_t>(file, "ends")) {
    documents.push_back(std::span(tokens).subspan(begin, static_cast<std::size_t>(end) - begin));
    begin = static_cast<std::size_t>(end);
  }
  const Result<BackoffNgram> law = parse_arpa(to_arpa(estimate_kneser_ney(documents)));
  ASSERT_TRUE(law);
  const std::vector<Token> trigrams = values_of<Token>(file, "trigrams");
  const std::vector<float> expected = values_of<float>(file, "log10");
  ASSERT_EQ(expected.size(), 10000U);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Token next = trigrams[3 * i + 2] == -2 ? BackoffNgram::kEnd : trigrams[3 * i + 2];
    const double log10_p =
        law->log_prob(trigrams[3 * i], trigrams[3 * i + 1], next) / std::log(10.0);
    ASSERT_NEAR(log10_p, expected[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace forerun
