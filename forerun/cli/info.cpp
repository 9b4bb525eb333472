#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct Flags {
  std::string path;
  bool json = false, tensors = false;
};

int run(const Flags& f) {
  FileInfo info = inspect(f.path);
  info.facts.emplace_back("this processor", machine().cpu);
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
  for (const auto& [name, value] : info.facts) out += fmt::format("{:<28} {}\n", name, value);
  for (const auto& t : info.tensors) {
    if (f.tensors)
      out += fmt::format("  {:<40} {:<5} [{}]\n", t.name, t.dtype, fmt::join(t.shape, ", "));
  }
  write_out(out);
  return 0;
}

}  // namespace

Action add_info(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("info", "What a model file holds");
  command->add_option("file", f->path, "GGUF or safetensors file, or Hugging Face folder")
      ->required();
  command->add_flag("--tensors", f->tensors, "List every tensor");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer("Example:\n  forerun info model.gguf --tensors");
  return [f] { return run(*f); };
}

}  // namespace forerun::cli
