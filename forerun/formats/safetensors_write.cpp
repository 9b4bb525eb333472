#include "forerun/formats/safetensors_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "forerun/base/atomic_file.h"
#include "forerun/base/quote.h"

namespace forerun {
namespace {

using nlohmann::json;

void check(const TensorView& tensor) {
  if (block_size(tensor.dtype) != 1) {
    throw std::invalid_argument(
        fmt::format("write_safetensors: tensor {} is {}, expected plain numbers; dequantize it",
                    quote(tensor.name), name_of(tensor.dtype)));
  }
  const auto elements = element_count(tensor.shape);
  const auto bytes = elements ? byte_size(tensor.dtype, *elements) : std::nullopt;
  if (!bytes || static_cast<std::uint64_t>(*bytes) != tensor.bytes.size()) {
    throw std::invalid_argument(fmt::format(
        "write_safetensors: tensor {} of {} with shape [{}] has {} bytes; pass all of its bytes",
        quote(tensor.name), name_of(tensor.dtype), fmt::join(tensor.shape, ", "),
        tensor.bytes.size()));
  }
}

// Length, then JSON padded with spaces so that the data starts at a multiple of 8.
std::string header(std::span<const TensorView* const> order,
                   const Safetensors::Metadata& metadata) {
  json root = json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  for (const TensorView* tensor : order) {
    const std::uint64_t end = begin + tensor->bytes.size();
    root[tensor->name] = {{"dtype", name_of(tensor->dtype)},
                          {"shape", tensor->shape},
                          {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const json::type_error&) {
    throw std::invalid_argument("write_safetensors: a name or metadata text is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Safetensors::Metadata& metadata) {
  std::set<std::string_view> names{"__metadata__"};
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    check(tensor);
    if (!names.insert(tensor.name).second) {
      throw std::invalid_argument(
          fmt::format("write_safetensors: the name {} is taken; give every tensor its own",
                      quote(tensor.name)));
    }
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return block_bytes(a->dtype) > block_bytes(b->dtype);
  });
  const std::string start = header(order, metadata);
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(start)));
  for (const TensorView* tensor : order) file.append(tensor->bytes);
  file.commit();
}

}  // namespace forerun
