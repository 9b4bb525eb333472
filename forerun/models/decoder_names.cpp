// What files of some families name a decoder's weights.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "forerun/models/build_decoder.h"

namespace forerun {

std::string nemotron_name(const std::string& name) {
  constexpr std::string_view kModel = "model.";
  return name.starts_with(kModel) ? "encoder." + name.substr(kModel.size())
                                  : "diffusion_head.weight";
}

std::string mixtral_name(const std::string& name) {
  constexpr std::string_view kMlp = ".mlp.";
  const std::size_t at = name.find(kMlp);
  if (at == std::string::npos) return name;
  std::string out = name;
  out.replace(at, kMlp.size(), ".block_sparse_moe.");
  constexpr std::pair<std::string_view, std::string_view> kMatrices[] = {
      {".gate_proj.", ".w1."}, {".down_proj.", ".w2."}, {".up_proj.", ".w3."}};
  for (const auto& [ours, theirs] : kMatrices) {
    const std::size_t matrix = out.find(ours);
    if (matrix != std::string::npos) out.replace(matrix, ours.size(), theirs);
  }
  return out;
}

std::string gpt_oss_name(const std::string& name) {
  constexpr std::string_view kRouter = ".mlp.gate.", kExperts = ".mlp.experts.";
  std::string out = name;
  if (const std::size_t at = name.find(kRouter); at != std::string::npos) {
    return out.replace(at, kRouter.size(), ".mlp.router.");
  }
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return name;
  const bool down = name.find("down_proj") != std::string::npos;
  return fmt::format("{}{}{}", name.substr(0, at + kExperts.size()),
                     down ? "down_proj" : "gate_up_proj", name.ends_with(".bias") ? "_bias" : "");
}

}  // namespace forerun
