#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "forerun/base/quote.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/internal/byte_reader.h"
#include "forerun/formats/internal/file_kind.h"
#include "forerun/formats/internal/ggml_types.h"

namespace forerun {

namespace {

constexpr std::string_view kSupported =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS "
    "and MXFP4 "
    "are";
constexpr std::uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 4;
// Smallest records: a key and a value of one byte; a tensor without dimensions.
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

std::uint64_t width_of(GgufType type) noexcept {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kString:  // its length
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kArray:  // its type and length
      return 12;
  }
  return 0;
}

bool is_type(std::uint32_t id) noexcept { return id <= static_cast<std::uint32_t>(GgufType::kF64); }

}  // namespace

/// One pass over the file; the reader's first error wins.
class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> file) : file_(file), in_(file) {}

  Result<Gguf> parse() && {
    parse_header();
    for (std::uint64_t i = 0; i < entries_ && !in_.error(); ++i) parse_entry();
    if (!in_.error()) check_entries();
    for (std::uint64_t i = 0; i < tensors_ && !in_.error(); ++i) parse_tensor();
    if (!in_.error()) place_tensors();
    if (in_.error()) return *in_.error();
    return std::move(out_);
  }

 private:
  void parse_header();
  void parse_entry();
  void check_entries();
  void check_part();
  void parse_tensor();
  void place_tensors();
  GgufValue parse_value(GgufType type, std::string_view what);
  GgufArray parse_array(std::string_view what, int depth);
  std::optional<GgufType> read_type(std::string_view what);
  void check_count(std::uint64_t count, std::uint64_t least_bytes, std::string_view what);

  std::span<const std::byte> file_;
  internal::ByteReader in_;
  Gguf out_;
  std::uint64_t entries_ = 0, tensors_ = 0, alignment_ = 32;
  std::vector<std::uint64_t> offsets_;  // of each tensor, from the start of the data
};

void GgufParser::parse_header() {
  constexpr std::string_view kMagic = "GGUF";
  if (file_.size() < kMagic.size() ||
      !std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(file_.data()))) {
    return in_.fail(fmt::format("not a GGUF file: it {}", internal::describe_unexpected(file_)));
  }
  in_.take(kMagic.size(), "the magic");
  const auto version = in_.read<std::uint32_t>("the version");
  if (in_.error()) return;
  if (version != 0 && (version & 0xffff) == 0) {
    return in_.fail("a big-endian GGUF file; convert the model again for little-endian machines");
  }
  if (version != 2 && version != 3) {
    return in_.fail(fmt::format("GGUF version {}, versions 2 and 3 are read; {}", version,
                                version < 2 ? "convert the model again" : "update forerun"));
  }
  out_.version_ = version;
  tensors_ = in_.read<std::uint64_t>("the tensor count");
  entries_ = in_.read<std::uint64_t>("the metadata count");
  check_count(tensors_, kMinTensorBytes, "tensors");
  check_count(entries_, kMinEntryBytes, "metadata entries");
}

// Counts are checked against the bytes left before anything of their size is allocated.
void GgufParser::check_count(std::uint64_t count, std::uint64_t least_bytes,
                             std::string_view what) {
  if (in_.error() || count <= in_.remaining() / least_bytes) return;
  in_.fail(
      fmt::format("{} {} cannot fit the {} bytes that follow; the file is cut off or damaged, "
                  "download it again",
                  count, what, in_.remaining()));
}

std::optional<GgufType> GgufParser::read_type(std::string_view what) {
  const auto id = in_.read<std::uint32_t>(what);
  if (in_.error()) return std::nullopt;
  if (is_type(id)) return static_cast<GgufType>(id);
  in_.fail(
      fmt::format("{} has the unknown type number {}; the file is damaged or newer than "
                  "forerun knows",
                  what, id));
  return std::nullopt;
}

void GgufParser::parse_entry() {
  const std::string_view key = in_.string("a metadata key");
  if (in_.error()) return;
  const std::string what = fmt::format("metadata {}", quote(key));
  const auto type = read_type(what);
  if (!type) return;
  GgufValue value = parse_value(*type, what);
  if (in_.error()) return;
  if (!out_.entry_index_.emplace(key, out_.metadata_.size()).second) {
    return in_.fail(fmt::format("{} occurs twice; the file is damaged, convert it again", what));
  }
  out_.metadata_.push_back({key, std::move(value)});
}

GgufValue GgufParser::parse_value(GgufType type, std::string_view what) {
  switch (type) {
    case GgufType::kU8:
      return in_.read<std::uint8_t>(what);
    case GgufType::kI8:
      return in_.read<std::int8_t>(what);
    case GgufType::kU16:
      return in_.read<std::uint16_t>(what);
    case GgufType::kI16:
      return in_.read<std::int16_t>(what);
    case GgufType::kU32:
      return in_.read<std::uint32_t>(what);
    case GgufType::kI32:
      return in_.read<std::int32_t>(what);
    case GgufType::kF32:
      return in_.read<float>(what);
    case GgufType::kBool:
      return in_.read<std::uint8_t>(what) != 0;
    case GgufType::kString:
      return in_.string(what);
    case GgufType::kArray:
      return parse_array(what, 1);
    case GgufType::kU64:
      return in_.read<std::uint64_t>(what);
    case GgufType::kI64:
      return in_.read<std::int64_t>(what);
    case GgufType::kF64:
      return in_.read<double>(what);
  }
  return false;
}

GgufArray GgufParser::parse_array(std::string_view what, int depth) {
  GgufArray out{};
  const auto type = read_type(what);
  const auto size = in_.read<std::uint64_t>(what);
  if (!type || in_.error()) return out;
  if (depth > kMaxArrayDepth) {
    in_.fail(
        fmt::format("{} nests arrays deeper than {}; the file is damaged", what, kMaxArrayDepth));
    return out;
  }
  check_count(size, width_of(*type), fmt::format("elements of {}", what));
  if (in_.error()) return out;
  out.type = *type;
  out.size = size;
  if (*type == GgufType::kString) {
    out.strings.reserve(size);
    for (std::uint64_t i = 0; i < size && !in_.error(); ++i)
      out.strings.push_back(in_.string(what));
  } else if (*type == GgufType::kArray) {
    for (std::uint64_t i = 0; i < size && !in_.error(); ++i) {
      out.arrays.push_back(parse_array(what, depth + 1));
    }
  } else {
    out.packed = in_.take(size * width_of(*type), what);
  }
  return out;
}

void GgufParser::check_entries() {
  const auto alignment = out_.read_or<std::uint32_t>("general.alignment", 32);
  if (!alignment) return in_.fail(alignment.error().message);
  if (!std::has_single_bit(*alignment)) {
    return in_.fail(fmt::format("general.alignment is {}, expected a power of two", *alignment));
  }
  alignment_ = *alignment;
  check_part();
}

// Written by llama-gguf-split: the number of parts, and which one this is, from 0.
void GgufParser::check_part() {
  const auto parts = out_.read_or<std::int32_t>("split.count", 1);
  if (!parts) return in_.fail(parts.error().message);
  const auto part = out_.read_or<std::int32_t>("split.no", 0);
  if (!part) return in_.fail(part.error().message);
  if (*parts <= 1) return;
  if (*part < 0 || *part >= *parts) {
    return in_.fail(fmt::format("is part {} of {} of a split model; the file is damaged",
                                std::int64_t{*part} + 1, *parts));
  }
  out_.part_ = *part + 1;
  out_.parts_ = *parts;
}

void GgufParser::parse_tensor() {
  const std::string_view name = in_.string("a tensor name");
  if (in_.error()) return;
  const std::string what = fmt::format("tensor {}", quote(name));
  const auto dims = in_.read<std::uint32_t>(what);
  if (dims > kMaxDims) {
    return in_.fail(
        fmt::format("{} has {} dimensions, at most {} are possible; the file is damaged", what,
                    dims, kMaxDims));
  }
  TensorView tensor{.name = std::string(name), .dtype = DType::kF32, .shape = {}, .bytes = {}};
  for (std::uint32_t i = 0; i < dims; ++i) tensor.shape.push_back(in_.read<std::int64_t>(what));
  const auto type = in_.read<std::uint32_t>(what);
  const auto offset = in_.read<std::uint64_t>(what);
  if (in_.error()) return;
  const auto dtype = internal::dtype_of_ggml(type);
  if (!dtype) {
    const std::string_view known = internal::ggml_type_name(type);
    return in_.fail(
        fmt::format("{} is stored as {} (type {}), which forerun does not read; {}: "
                    "quantise the model to one of these",
                    what, known.empty() ? "an unknown type" : known, type, kSupported));
  }
  tensor.dtype = *dtype;
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](auto n) { return n <= 0; })) {
    return in_.fail(
        fmt::format("{} has shape [{}] (innermost first), every dimension must be "
                    "positive; the file is damaged",
                    what, fmt::join(tensor.shape, ", ")));
  }
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.front();
  if (row % block_size(*dtype) != 0) {
    return in_.fail(
        fmt::format("{} has rows of {} elements, {} needs a multiple of {}; the file is "
                    "damaged",
                    what, row, name_of(*dtype), block_size(*dtype)));
  }
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  if (!out_.tensor_index_.emplace(name, out_.tensors_.size()).second) {
    return in_.fail(fmt::format("{} occurs twice; the file is damaged, convert it again", what));
  }
  out_.tensors_.push_back(std::move(tensor));
  offsets_.push_back(offset);
}

void GgufParser::place_tensors() {
  const std::uint64_t header = in_.position();
  const std::uint64_t start = header + (alignment_ - header % alignment_) % alignment_;
  struct Extent {
    std::uint64_t begin, end;
    std::size_t tensor;
  };
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < out_.tensors_.size(); ++i) {
    const TensorView& tensor = out_.tensors_[i];
    const auto count = element_count(tensor.shape);
    const auto bytes = count ? byte_size(tensor.dtype, *count) : std::nullopt;
    std::uint64_t begin = 0, end = 0;
    if (!bytes || __builtin_add_overflow(start, offsets_[i], &begin) ||
        __builtin_add_overflow(begin, static_cast<std::uint64_t>(*bytes), &end)) {
      return in_.fail(
          fmt::format("tensor {} with shape [{}] at offset {} is larger than any file; "
                      "the file is damaged",
                      quote(tensor.name), fmt::join(tensor.shape, ", "), offsets_[i]));
    }
    if (offsets_[i] % alignment_ != 0) {
      return in_.fail(
          fmt::format("tensor {} lies at offset {}, expected a multiple of {}; the file "
                      "is damaged",
                      quote(tensor.name), offsets_[i], alignment_));
    }
    extents.push_back({begin, end, i});
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t end = start;
  for (const Extent& extent : extents) {
    TensorView& tensor = out_.tensors_[extent.tensor];
    if (extent.begin < end) {
      return in_.fail(fmt::format("tensor {} overlaps the one before it; the file is damaged",
                                  quote(tensor.name)));
    }
    end = extent.end;
    if (end <= file_.size()) tensor.bytes = file_.subspan(extent.begin, end - extent.begin);
  }
  if (!extents.empty() && end > file_.size()) {
    in_.fail(
        fmt::format("the file has {} bytes where its tensors need {}: {} bytes are missing; "
                    "download it again",
                    file_.size(), end, end - file_.size()));
  }
}

Result<Gguf> parse_gguf(std::span<const std::byte> file) { return GgufParser(file).parse(); }

}  // namespace forerun
