#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/terminal.h"
#include "forerun/image.h"
#include "forerun/text.h"
#include "forerun/token_image.h"

namespace forerun::cli {
namespace {

struct InfoFlags {
  std::string path;
  bool json = false, tensors = false;
};

// Not a drafter, whose precision is its target's, nor a file of tensors.
bool is_model(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored)
             ? is_diffusion_model(path) || is_token_image_model(path) ||
                   std::filesystem::exists(std::filesystem::path(path) / "tokenizer.json", ignored)
             : is_diffusion_model(path) || path.ends_with(".gguf");
}

// What its publisher says, or what is wrong with that.
std::string recommended(const std::string& path) {
  if (!is_model(path)) return "";
  try {
    const RecommendedSampling found = recommended_sampling(path);
    return found.none() ? "" : fmt::format("{} ({})", described(found), found.file);
  } catch (const FormatError& e) {
    return e.what();
  }
}

int run_info(const InfoFlags& f) {
  expect_path(f.path);
  FileInfo info = inspect(f.path);
  info.facts.emplace_back("this processor", machine().cpu);
  if (is_model(f.path)) {
    const ChosenPrecision chosen = auto_precision(f.path);
    info.facts.emplace_back("precision auto on it",
                            fmt::format("{} ({})", name_of(chosen.precision), chosen.reason));
  }
  if (const std::string sampling = recommended(f.path); !sampling.empty()) {
    info.facts.emplace_back("recommended sampling", sampling);
  }
  info.facts.emplace_back("precision int8 on it", machine().kernels);
  if (f.json) {
    nlohmann::json j = {{"facts", nlohmann::json::object()}, {"tensors", nlohmann::json::array()}};
    for (const auto& [name, value] : info.facts) j["facts"][name] = value;
    for (const auto& t : info.tensors) {
      j["tensors"].push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}});
    }
    write_json(j);
    return 0;
  }
  std::string out;
  for (const auto& [name, value] : info.facts)
    out += fmt::format("{:<28} {}\n", printable(name), printable(value));
  for (const auto& t : info.tensors) {
    if (f.tensors)
      out += fmt::format("  {:<40} {:<5} [{}]\n", printable(t.name), t.dtype,
                         fmt::join(t.shape, ", "));
  }
  write_out(out);
  return 0;
}

}  // namespace

void add_info(Command& program) {
  auto f = std::make_shared<InfoFlags>();
  Command& command = program.add_command("info", "What a model file holds");
  command.add("file", f->path, "GGUF or safetensors file, or Hugging Face folder",
              {.required = true, .means = local_model});
  command.add("--tensors", f->tensors, "List every tensor");
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer("Example:\n  forerun info model.gguf --tensors");
  command.runs([f] { return run_info(*f); });
}

}  // namespace forerun::cli
