#include "forerun/models/internal/output_vocabulary.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <vector>

#include "forerun/base/result.h"

namespace forerun::internal {

at::Tensor read_output_vocabulary(WeightReader& source, std::int64_t vocab, std::int64_t outputs) {
  if (outputs == vocab && !source.has("d2t")) return {};
  std::vector<std::int64_t> ids = source.numbers("d2t", outputs);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int64_t id = 0;
    const bool overflow = __builtin_add_overflow(ids[i], static_cast<std::int64_t>(i), &id);
    if (overflow || id <= last || id >= vocab) {
      throw FormatError(fmt::format(
          "d2t maps row {} of the head outside a rising order below {}; the file is damaged", i,
          vocab));
    }
    last = ids[i] = id;
  }
  if (source.has("t2d")) {
    std::vector<std::int64_t> flags(static_cast<std::size_t>(vocab), 0);
    for (const std::int64_t id : ids) flags[static_cast<std::size_t>(id)] = 1;
    if (source.numbers("t2d", vocab) != flags) {
      throw FormatError("d2t and t2d name different tokens; the file is damaged");
    }
  }
  if (outputs == vocab) return {};
  return at::tensor(ids, at::kLong);
}

void save_network_folder(const std::filesystem::path& folder, std::span<const ModelWeight> weights,
                         const at::Tensor& tokens, nlohmann::json config,
                         const nlohmann::json& provenance, std::string_view who) {
  if (!provenance.is_null()) config["forerun"] = provenance;
  std::vector<NamedTensor> tensors = named_tensors(weights, who);
  if (tokens.defined()) {
    const at::Tensor ids = tokens.to(at::kCPU);
    tensors.push_back({"d2t", ids - at::arange(ids.size(0))});
  }
  save_model_folder(folder, tensors, config);
}

}  // namespace forerun::internal
