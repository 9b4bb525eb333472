#include "forerun/models/internal/weight_reader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "forerun/base/atomic_file.h"
#include "forerun/base/quote.h"
#include "forerun/formats/dequantize.h"
#include "forerun/formats/safetensors_write.h"
#include "forerun/formats/whole_numbers.h"

namespace forerun::internal {

WeightReader::WeightReader(const Safetensors& file, at::ScalarType type, std::string what)
    : file_(file), type_(type), what_(std::move(what)) {
  for (const TensorView& t : file.tensors()) left_.insert(t.name);
}

at::Tensor WeightReader::weight(const std::string& name, const std::vector<std::int64_t>& shape) {
  const TensorView& view = take(name, shape);
  if (!holds_weights(view.dtype)) {
    throw FormatError(fmt::format("tensor {} {}", quote(name), why_no_weights(view.dtype)));
  }
  at::Tensor out = at::empty(shape, at::kFloat);
  dequantize(view.dtype, view.bytes,
             {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
  if (!out.isfinite().all().item<bool>()) {
    throw FormatError(fmt::format(
        "tensor {} holds values that are no numbers; the training failed, or the file is damaged",
        quote(name)));
  }
  return out.to(type_);
}

std::vector<std::int64_t> WeightReader::numbers(const std::string& name, std::int64_t count) {
  Result<std::vector<std::int64_t>> out = whole_numbers(take(name, {count}));
  if (!out) throw FormatError(out.error().message);
  return *std::move(out);
}

void WeightReader::expect_nothing_left() const {
  if (left_.empty()) return;
  throw FormatError(fmt::format(
      "{} tensors are unknown, the first is {}; the {} has parts that are not supported",
      left_.size(), quote(*left_.begin()), what_));
}

const TensorView& WeightReader::take(const std::string& name,
                                     const std::vector<std::int64_t>& shape) {
  const TensorView* view = file_.find(name);
  if (view == nullptr) {
    throw FormatError(
        fmt::format("tensor {} is missing: the file is incomplete, or another {} than its config "
                    "says",
                    quote(name), what_));
  }
  if (view->shape != shape) {
    throw FormatError(fmt::format("tensor {} has shape [{}], the config's sizes ask for [{}]",
                                  quote(name), fmt::join(view->shape, ", "),
                                  fmt::join(shape, ", ")));
  }
  left_.erase(name);
  return *view;
}

std::vector<NamedTensor> named_tensors(std::span<const ModelWeight> weights, std::string_view who) {
  std::vector<NamedTensor> out;
  for (const ModelWeight& w : weights) {
    if (!w.tensor->defined() || w.tensor->sizes() != at::IntArrayRef(w.shape)) {
      throw std::invalid_argument(
          fmt::format("{}: weight {} is not of its config's shape", who, w.name));
    }
    out.push_back({w.name, *w.tensor});
  }
  return out;
}

void save_model_folder(const std::filesystem::path& folder, const std::vector<NamedTensor>& tensors,
                       const nlohmann::json& config) {
  const std::string text = config.dump(2) + "\n";
  std::vector<at::Tensor> kept;  // the memory behind the views
  std::vector<TensorView> views;
  for (const NamedTensor& t : tensors) {
    const at::ScalarType type = t.value.scalar_type() == at::kLong ? at::kLong : t.type;
    at::Tensor x = t.value.detach().to(at::kCPU, type).contiguous();
    views.push_back({t.name,
                     type == at::kLong    ? DType::kI64
                     : type == at::kFloat ? DType::kF32
                                          : DType::kBF16,
                     x.sizes().vec(),
                     {static_cast<const std::byte*>(x.const_data_ptr()), x.nbytes()}});
    kept.push_back(std::move(x));
  }
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw FormatError(folder.string() + ": cannot be made: " + failed.message());
  // Weights first: a folder with only a config would look like half a checkpoint.
  write_safetensors(folder / "model.safetensors", views, {{"format", "pt"}});
  AtomicFile file(folder / "config.json");
  file.append(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace forerun::internal
