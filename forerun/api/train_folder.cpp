#include "forerun/api/train_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/base/json_text.h"
#include "forerun/base/mapped_file.h"
#include "forerun/common.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// The method of a run, from where a JSON text keeps its objective; empty if it keeps none.
std::string method_in(std::string_view text, const char* place) {
  const Result<nlohmann::json> parsed = parse_json(text);
  const nlohmann::json::json_pointer at(place);
  if (!parsed || !parsed->is_object() || !parsed->contains(at)) return {};
  const nlohmann::json& objective = parsed->at(at);
  if (!objective.is_string()) return {};
  const auto& line = objective.get_ref<const std::string&>();
  return line.substr(0, line.find(' '));
}

std::string method_of_log(const fs::path& log) {
  constexpr std::size_t kMost = 1 << 20;  // of its first line
  const Result<MappedFile> file = MappedFile::open(log);
  if (!file) return {};
  const std::string_view first = file->text().substr(0, kMost);
  return method_in(first.substr(0, first.find('\n')), "/run/options/objective");
}

std::string method_of_result(const fs::path& config) {
  const Result<MappedFile> file = MappedFile::open(config);
  return file ? method_in(file->text(), "/forerun/options/objective") : std::string();
}

}  // namespace

void expect_own_folder(const fs::path& out, std::string_view method, const fs::path& init) {
  std::error_code missing;
  if (!init.empty() && fs::equivalent(out, init, missing)) {
    throw UsageError(fmt::format(
        "{}: a run would write over what it starts from: choose another --out", out.string()));
  }
  if (fs::exists(out / "distill.json")) {
    throw UsageError(fmt::format(
        "{} holds answers of forerun distill, which could not be read beside a model: choose "
        "another --out",
        out.string()));
  }
  // With a checkpoint it is for the trainer to say whether this is its run.
  if (fs::exists(out / "checkpoint.safetensors")) return;
  const bool model = fs::exists(out / "config.json") || fs::exists(out / "model.safetensors");
  const auto holds_something = [&](const char* name) {
    return fs::exists(out / name) && !(fs::is_regular_file(out / name) && fs::is_empty(out / name));
  };
  const bool log = holds_something("log.jsonl"), page = holds_something("curves.html");
  const std::string begun = method_of_log(out / "log.jsonl");
  if (model && !(begun == method && method_of_result(out / "config.json") == method)) {
    throw UsageError(
        fmt::format("{} holds another model, or one without the log of its training, and would be "
                    "overwritten: choose another --out",
                    out.string()));
  }
  if ((log || page) && begun.empty()) {
    throw UsageError(fmt::format(
        "{} would be overwritten, and is not of forerun train: choose another --out, or move it "
        "away",
        (out / (log ? "log.jsonl" : "curves.html")).string()));
  }
}

}  // namespace forerun
