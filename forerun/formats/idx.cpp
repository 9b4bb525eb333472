#include "forerun/formats/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "forerun/formats/internal/gzip.h"
#include "forerun/formats/internal/parse_file.h"
#include "forerun/formats/tensor_view.h"

namespace forerun {
namespace {

using Bytes = std::vector<std::uint8_t>;

// EMNIST, the largest of the family, has half a gigabyte.
constexpr std::int64_t kMaxValues = std::int64_t{1} << 32;
constexpr std::uint8_t kMaxDimensions = 8;
constexpr std::uint8_t kUnsignedBytes = 0x08;

/// Plain data with the interface of GzipReader.
class PlainReader {
 public:
  explicit PlainReader(std::span<const std::byte> file) noexcept : rest_(file) {}

  Result<Bytes> read(std::size_t limit) {
    const auto part = rest_.first(std::min(limit, rest_.size()));
    rest_ = rest_.subspan(part.size());
    const auto* begin = reinterpret_cast<const std::uint8_t*>(part.data());
    return Bytes(begin, begin + part.size());
  }

 private:
  std::span<const std::byte> rest_;
};

const char* type_name(std::uint8_t code) noexcept {
  switch (code) {
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit integers";
    case 0x0C:
      return "32-bit integers";
    case 0x0D:
      return "32-bit floats";
    case 0x0E:
      return "64-bit floats";
    default:
      return nullptr;
  }
}

Error short_header(std::size_t have) {
  return {fmt::format("ends after {} bytes, within the header of an IDX file; download it again",
                      have)};
}

/// The two bytes behind the two zeros of a magic number: what elements, how many dimensions.
std::optional<Error> check_magic(const Bytes& magic) {
  if (magic[0] != 0 || magic[1] != 0 ||
      (magic[2] != kUnsignedBytes && type_name(magic[2]) == nullptr)) {
    return Error{
        fmt::format("starts with {:02x}, which is not the start of an IDX file; give a file such "
                    "as train-images-idx3-ubyte.gz",
                    fmt::join(magic, " "))};
  }
  if (magic[2] != kUnsignedBytes) {
    return Error{fmt::format("holds {}; forerun reads IDX files of unsigned bytes only",
                             type_name(magic[2]))};
  }
  if (magic[3] == 0 || magic[3] > kMaxDimensions) {
    return Error{fmt::format("claims {} dimensions; images have 3 and labels 1: download it again",
                             magic[3])};
  }
  return std::nullopt;
}

using Shape = std::vector<std::int64_t>;

template <class Reader>
Result<Shape> read_shape(Reader& reader) {
  const Result<Bytes> magic = reader.read(4);
  if (!magic) return magic.error();
  if (magic->size() < 4) return short_header(magic->size());
  if (std::optional<Error> wrong = check_magic(*magic)) return *std::move(wrong);

  const std::size_t dimensions = (*magic)[3];
  const Result<Bytes> sizes = reader.read(4 * dimensions);
  if (!sizes) return sizes.error();
  if (sizes->size() < 4 * dimensions) return short_header(4 + sizes->size());
  Shape out;
  for (std::size_t i = 0; i < 4 * dimensions; i += 4) {
    const std::uint8_t* at = sizes->data() + i;  // most significant byte first
    out.push_back(std::int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3]);
  }
  const std::optional<std::int64_t> count = element_count(out);
  if (!count || *count > kMaxValues) {
    return Error{
        fmt::format("claims a shape of {}, more than the 4 GiB that forerun reads; "
                    "download it again, or split it",
                    fmt::join(out, " x "))};
  }
  return out;
}

template <class Reader>
Result<IdxBytes> read_idx(Reader reader) {
  Result<Shape> shape = read_shape(reader);
  if (!shape) return shape.error();
  const auto count = static_cast<std::size_t>(*element_count(*shape));
  Result<Bytes> values = reader.read(count);
  if (!values) return values.error();
  if (values->size() < count) {
    return Error{
        fmt::format("truncated: the shape {} takes {} bytes, {} are there; download it "
                    "again",
                    fmt::join(*shape, " x "), count, values->size())};
  }
  const Result<Bytes> behind = reader.read(1);  // gzip data are checked here, at their end
  if (!behind) return behind.error();
  if (!behind->empty()) {
    return Error{
        fmt::format("goes on behind the {} bytes that its shape {} takes; download it "
                    "again",
                    count, fmt::join(*shape, " x "))};
  }
  return IdxBytes{*std::move(shape), *std::move(values)};
}

Result<Shape> parse_shape(std::span<const std::byte> file) {
  internal::GzipReader packed(file);
  PlainReader plain(file);
  return internal::is_gzip(file) ? read_shape(packed) : read_shape(plain);
}

}  // namespace

Result<IdxBytes> parse_idx(std::span<const std::byte> file) {
  if (internal::is_gzip(file)) return read_idx(internal::GzipReader(file));
  return read_idx(PlainReader(file));
}

Result<IdxBytes> load_idx(const std::filesystem::path& path) {
  return internal::parse_file(path, parse_idx);
}

Result<Shape> load_idx_shape(const std::filesystem::path& path) {
  return internal::parse_file(path, parse_shape);
}

}  // namespace forerun
