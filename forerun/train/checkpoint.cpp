#include "forerun/train/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "forerun/base/hash.h"
#include "forerun/base/json_text.h"
#include "forerun/formats/safetensors_write.h"

namespace forerun {
namespace {

constexpr const char* kState = "forerun.train";
constexpr const char* kChecksum = "forerun.xxh3";
constexpr const char* kRemedy =
    "put back a good copy, or move it away to start the run from its beginning";

// The reader's own hints are for downloaded models or wrong paths.
Safetensors read_checkpoint(const std::filesystem::path& path) {
  const auto broken = [&](const std::string& what) {
    return FormatError(
        fmt::format("{}: {}; {}", path.string(), what.substr(0, what.find("; ")), kRemedy));
  };
  std::error_code unknown;
  if (std::filesystem::file_size(path, unknown) == 0 && !unknown) throw broken("is empty");
  auto file = std::make_shared<const MappedFile>(load_file(path));
  const Result<Safetensors> parsed = parse_safetensors(file->bytes());
  if (!parsed) throw broken(parsed.error().message);
  return {parsed->tensors(), parsed->metadata(), {std::move(file)}};
}

std::span<const std::byte> bytes_of(const at::Tensor& t) {
  return std::as_bytes(std::span(t.const_data_ptr<float>(), static_cast<std::size_t>(t.numel())));
}

// In the order of the tensors' names, which a file may not keep.
std::string checksum(std::vector<const TensorView*> tensors, const std::string& state) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  Hash sum;
  sum.add(state);
  for (const TensorView* t : tensors) sum.add(t->name).add_all(t->bytes);
  return sum.text();
}

std::vector<const TensorView*> pointers(const std::vector<TensorView>& tensors) {
  std::vector<const TensorView*> out;
  for (const TensorView& t : tensors) out.push_back(&t);
  return out;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const NamedTensors& tensors,
                      const nlohmann::json& state) {
  std::vector<TensorView> views;
  std::vector<at::Tensor> here;
  for (const auto& [name, t] : tensors) {
    here.push_back(t.cpu());
    views.push_back({name, DType::kF32, t.sizes().vec(), bytes_of(here.back())});
  }
  const std::string text = state.dump();
  write_safetensors(path, views, {{kState, text}, {kChecksum, checksum(pointers(views), text)}});
}

Checkpoint::Checkpoint(const std::filesystem::path& path)
    : path_(path.string()), file_(read_checkpoint(path)) {
  const auto& metadata = file_.metadata();
  const auto text = metadata.find(kState), sum = metadata.find(kChecksum);
  if (text == metadata.end() || sum == metadata.end()) {
    throw FormatError(fmt::format(
        "{}: not a checkpoint of a training run by this version of forerun; {}", path_, kRemedy));
  }
  if (checksum(pointers(file_.tensors()), text->second) != sum->second) {
    throw FormatError(fmt::format("{}: damaged, its checksum does not fit; {}", path_, kRemedy));
  }
  const Result<nlohmann::json> state = parse_json(text->second);
  if (!state) throw FormatError(fmt::format("{}: {}; {}", path_, state.error().message, kRemedy));
  state_ = *state;
}

void Checkpoint::restore_(const NamedTensors& tensors) const {
  for (const auto& [name, t] : tensors) {
    const TensorView* view = file_.find(name);
    if (view == nullptr || view->dtype != DType::kF32 || view->shape != t.sizes().vec()) {
      throw FormatError(fmt::format(
          "{}: {} {} where this run has [{}]; it is of another model: train into another folder",
          path_, name, view == nullptr ? "is missing" : "has another shape",
          fmt::join(t.sizes().vec(), ", ")));
    }
  }
  if (file_.tensors().size() != tensors.size()) {
    throw FormatError(
        fmt::format("{}: {} tensors where this run has {}; it is of another model: train into "
                    "another folder",
                    path_, file_.tensors().size(), tensors.size()));
  }
  for (const auto& [name, t] : tensors) {
    const auto bytes = file_.find(name)->bytes;
    const at::Tensor here = at::empty(t.sizes(), at::kFloat);
    std::memcpy(here.data_ptr<float>(), bytes.data(), bytes.size());
    t.detach().copy_(here);
  }
}

}  // namespace forerun
