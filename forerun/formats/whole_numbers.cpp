#include "forerun/formats/whole_numbers.h"

#include <fmt/format.h>

#include <cstring>

#include "forerun/base/quote.h"

namespace forerun {
namespace {

template <class T>
std::vector<std::int64_t> widened(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> out(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));  // files align nothing
    out[i] = static_cast<std::int64_t>(value);
  }
  return out;
}

}  // namespace

Result<std::vector<std::int64_t>> whole_numbers(const TensorView& tensor) {
  if (tensor.dtype == DType::kI64) return widened<std::int64_t>(tensor.bytes);
  if (tensor.dtype == DType::kI32) return widened<std::int32_t>(tensor.bytes);
  if (tensor.dtype != DType::kBool) {
    return Error{fmt::format("tensor {} holds {} where I64, I32 or BOOL is expected",
                             quote(tensor.name), name_of(tensor.dtype))};
  }
  std::vector<std::int64_t> flags = widened<std::uint8_t>(tensor.bytes);
  for (const std::int64_t flag : flags) {
    if (flag > 1) {
      return Error{fmt::format("tensor {} of flags holds {}; the file is damaged",
                               quote(tensor.name), flag)};
    }
  }
  return flags;
}

}  // namespace forerun
