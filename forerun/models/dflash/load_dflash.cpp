#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/internal/output_vocabulary.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
namespace {

using internal::WeightReader;

void check_target(const DFlashConfig& c, const DFlashTarget& target) {
  if (c.hidden != target.hidden) {
    throw FormatError(fmt::format(
        "the drafter was made for a target of hidden size {}, this one has {}; use the target it "
        "was trained with",
        c.hidden, target.hidden));
  }
  if (c.vocab != target.vocab) {
    throw FormatError(fmt::format(
        "the drafter was made for a vocabulary of {}, this target has {}; use the target it was "
        "trained with",
        c.vocab, target.vocab));
  }
}

// Rows of one matrix, read or shared.
at::Tensor own_or_shared(WeightReader& source, const char* name, std::vector<std::int64_t> shape,
                         const at::Tensor& shared, at::ScalarType type) {
  if (source.has(name)) return source.weight(name, shape);
  return shared.defined() ? shared.to(type) : at::Tensor();
}

DFlash read(const DFlashConfig& config, const DFlashTarget& target, WeightReader source,
            at::ScalarType type) {
  DFlash m(config);
  const bool has_vector = source.has("mask_embedding");
  if (has_vector) m.config.mask_token = -1;  // the vector is used in every masked slot
  if (!has_vector && config.mask_token < 0) {
    throw FormatError("neither a mask_embedding nor a mask_token_id: nothing stands in the slots");
  }
  for (const ModelWeight& w : weights(m)) *w.tensor = source.weight(w.name, w.shape);
  m.draft_to_target = internal::read_output_vocabulary(source, config.vocab, config.draft_vocab);
  const DFlashConfig& c = m.config;
  m.embedding =
      own_or_shared(source, "embed_tokens.weight", {c.vocab, c.hidden}, target.embedding, type);
  const at::Tensor rows = target.head.defined() && m.draft_to_target.defined()
                              ? target.head.index_select(0, m.draft_to_target)
                              : target.head;
  m.head = own_or_shared(source, "lm_head.weight", {c.draft_vocab, c.hidden}, rows, type);
  source.expect_nothing_left();
  return m;
}

}  // namespace

DFlashTarget::DFlashTarget(const DecoderLm& target)
    : hidden(target.config.hidden),
      vocab(target.config.vocab),
      layers(target.config.layers),
      embedding(target.embedding),
      head(target.head()) {}

DFlash load_dflash(const std::filesystem::path& folder, const DFlashTarget& target,
                   at::ScalarType type) {
  const HfConfig file = load_hf_config(folder);
  const auto fail = [&](const std::string& why) {
    throw FormatError(folder.string() + ": " + why);
  };
  const Result<DFlashConfig> config = parse_dflash_config(file.config, target.layers);
  if (!config) fail(config.error().message);
  const Safetensors tensors = load_safetensors(folder);
  try {
    check_target(*config, target);
    return read(*config, target, WeightReader(tensors, type, "drafter"), type);
  } catch (const FormatError& e) {
    fail(e.what());
  }
  return {};
}

}  // namespace forerun
