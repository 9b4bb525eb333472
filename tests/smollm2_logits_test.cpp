// SmolLM2-135M-Instruct against transformers in float32 (tests/data/smollm2, made by
// tools/make_smollm2_values.py): 64 fixed ids, the 8 best, and the argmax at each of 776 positions.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "forerun/formats/dequantize.h"
#include "forerun/models/load_decoder.h"
#include "tests/support/demo_model.h"

namespace forerun {
namespace {

std::vector<float> values(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<float> out(static_cast<std::size_t>(*element_count(view->shape)));
  dequantize(view->dtype, view->bytes, out);
  return out;
}

TEST(SmolLm2, LogitsMatchTransformersOnThreeTexts) {
  const c10::InferenceMode no_autograd;
  const DecoderLm model = load_decoder(load_gguf(demo_model_path()), Precision::kF32);
  const Safetensors e =
      load_safetensors(FORERUN_SOURCE_DIR "/tests/data/smollm2/expected.safetensors");
  const std::vector<float> ids = values(e, "ids");
  for (const std::string text : {"0", "1", "2"}) {
    std::vector<Token> tokens;
    for (const float t : values(e, "tokens_" + text)) tokens.push_back(static_cast<Token>(t));
    const std::vector<float> expected = values(e, "logits_" + text);
    const std::vector<float> top_ids = values(e, "top_ids_" + text);
    const std::vector<float> top = values(e, "top_logits_" + text);
    const std::vector<float> best = values(e, "argmax_" + text);
    KvCache cache = model.make_cache();
    const SequenceSpan span{
        .cache = &cache, .tokens = tokens, .scored = static_cast<std::int64_t>(tokens.size())};
    const at::Tensor logits = forward(model, {&span, 1});
    const at::Tensor argmax = logits.argmax(1);
    double worst = 0.0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const float* row = logits[static_cast<std::int64_t>(i)].data_ptr<float>();
      const auto off = [&](float id, float value) {
        worst = std::max(worst, std::abs(static_cast<double>(row[static_cast<std::size_t>(id)]) -
                                         static_cast<double>(value)));
      };
      for (std::size_t j = 0; j < ids.size(); ++j) off(ids[j], expected[i * ids.size() + j]);
      for (std::size_t j = 0; j < 8; ++j) off(top_ids[i * 8 + j], top[i * 8 + j]);
      EXPECT_EQ(argmax.data_ptr<std::int64_t>()[i], static_cast<std::int64_t>(best[i]))
          << "text " << text << ", position " << i;
    }
    RecordProperty("largest_difference_" + text, std::to_string(worst));
    EXPECT_LT(worst, 2e-3) << "text " << text;
  }
}

}  // namespace
}  // namespace forerun
