#include "forerun/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/formats/internal/file_kind.h"

namespace forerun {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation

/// A tensor of the header; its bytes are [begin, end) of the data after it.
struct Entry {
  TensorView tensor;
  std::uint64_t begin, end;
};

std::optional<DType> dtype_of(const std::string& name) {
  for (const DType t :
       {DType::kF32,     DType::kF16,     DType::kBF16,    DType::kI64,     DType::kI32,
        DType::kBool,    DType::kF64,     DType::kC64,     DType::kI16,     DType::kI8,
        DType::kU64,     DType::kU32,     DType::kU16,     DType::kU8,      DType::kF8_E4M3,
        DType::kF8_E5M2, DType::kF8_E8M0, DType::kF6_E2M3, DType::kF6_E3M2, DType::kF4}) {
    if (name_of(t) == name) return t;
  }
  return std::nullopt;
}

// None unless `value` is an array of whole numbers from 0 to the largest int64.
std::optional<std::vector<std::int64_t>> counts(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const json& item : *found) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const auto count = item.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(count)) return std::nullopt;
    out.push_back(static_cast<std::int64_t>(count));
  }
  return out;
}

Result<Entry> parse_entry(const std::string& name, const json& value) {
  const auto damaged = [&](std::string_view what) {
    return Error{fmt::format("tensor {} {}; the file is damaged", quote(name), what)};
  };
  if (!value.is_object()) return damaged("is not described by an object");
  const Result<std::string> stored = json_field<std::string>(value, "dtype");
  if (!stored) return damaged("has no dtype");
  const auto dtype = dtype_of(*stored);
  if (!dtype) {
    return Error{
        fmt::format("tensor {} is stored as {}, which forerun does not know; F32, F16 and "
                    "BF16 are read, and for ids and flags I64, I32 and BOOL: convert it",
                    quote(name), quote(*stored))};
  }
  auto shape = counts(value, "shape");
  if (!shape) return damaged("has no shape of whole numbers");
  const auto offsets = counts(value, "data_offsets");
  if (!offsets || offsets->size() != 2) return damaged("has no two data_offsets");
  const auto begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end) return damaged("ends before it begins");
  const auto elements = element_count(*shape);
  const auto bytes = elements ? byte_size(*dtype, *elements) : std::nullopt;
  if (!bytes || *bytes != end - begin) {
    return Error{
        fmt::format("tensor {} of {} with shape [{}] has {} bytes, {} expected; the file is "
                    "damaged",
                    quote(name), *stored, fmt::join(*shape, ", "), end - begin,
                    bytes ? fmt::to_string(*bytes) : "more than any file's")};
  }
  return Entry{{.name = name, .dtype = *dtype, .shape = *std::move(shape), .bytes = {}},
               static_cast<std::uint64_t>(begin),
               static_cast<std::uint64_t>(end)};
}

Result<Safetensors::Metadata> parse_metadata(const json& value) {
  Safetensors::Metadata out;
  if (!value.is_object()) return Error{"__metadata__ is not an object; the file is damaged"};
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Error{fmt::format("__metadata__ {} is not a string; the file is damaged", quote(key))};
    }
    out.emplace(key, text.get<std::string>());
  }
  return out;
}

// Gives each tensor its bytes; they must fill `data` without gap or overlap.
Result<std::vector<TensorView>> place(std::vector<Entry> entries, std::span<const std::byte> data) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      return Error{
          fmt::format("tensor {} starts at byte {} of the data, expected {} ({}); the file "
                      "is damaged",
                      quote(entry.tensor.name), entry.begin, end,
                      entry.begin < end ? "it overlaps another" : "there is a gap")};
    }
    end = entry.end;
  }
  if (end > data.size()) {
    return Error{
        fmt::format("the file has {} bytes of tensors where its header announces {}: {} "
                    "bytes are missing; download it again",
                    data.size(), end, end - data.size())};
  }
  if (end < data.size()) {
    return Error{fmt::format("{} bytes after the last tensor belong to none; the file is damaged",
                             data.size() - end)};
  }
  std::vector<TensorView> out;
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    out.push_back(std::move(entry.tensor));
  }
  return out;
}

// The JSON text before the data.
Result<std::string_view> header_text(std::span<const std::byte> file) {
  std::uint64_t size = 0;
  if (file.size() < sizeof size + 2) {
    return Error{
        fmt::format("{} bytes are too few for a safetensors file; download it again", file.size())};
  }
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof size;
  std::memcpy(&size, file.data(), sizeof size);
  if (size > kMaxHeaderBytes || *text != '{') {
    if (!internal::looks_like_safetensors(file)) {
      return Error{
          fmt::format("not a safetensors file: it {}", internal::describe_unexpected(file))};
    }
    return Error{fmt::format("the header has {} bytes, at most {} are read; the file is damaged",
                             size, kMaxHeaderBytes)};
  }
  if (size > file.size() - sizeof size) {
    return Error{
        fmt::format("the file ends inside its header: {} bytes are missing; download it "
                    "again",
                    size - (file.size() - sizeof size))};
  }
  return std::string_view(text, size);
}

}  // namespace

Safetensors::Safetensors(std::vector<TensorView> tensors, Metadata metadata,
                         std::vector<std::shared_ptr<const MappedFile>> files)
    : tensors_(std::move(tensors)), metadata_(std::move(metadata)), files_(std::move(files)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const TensorView* Safetensors::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::shared_ptr<const void> Safetensors::mapping() const {
  if (files_.empty()) return nullptr;
  return std::make_shared<const std::vector<std::shared_ptr<const MappedFile>>>(files_);
}

Result<Safetensors> parse_safetensors(std::span<const std::byte> file) {
  const Result<std::string_view> text = header_text(file);
  if (!text) return text.error();
  // An object of objects with arrays; the largest published models have 100,000 tensors.
  const Result<json> header = parse_json(*text, {.depth = 3, .values = 2'000'000});
  if (!header) return Error{fmt::format("header: {}", header.error().message)};
  Safetensors::Metadata metadata;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header->items()) {
    if (name == "__metadata__") {
      Result<Safetensors::Metadata> read = parse_metadata(value);
      if (!read) return read.error();
      metadata = *std::move(read);
      continue;
    }
    Result<Entry> entry = parse_entry(name, value);
    if (!entry) return entry.error();
    entries.push_back(*std::move(entry));
  }
  Result<std::vector<TensorView>> tensors =
      place(std::move(entries), file.subspan(sizeof(std::uint64_t) + text->size()));
  if (!tensors) return tensors.error();
  return Safetensors(*std::move(tensors), std::move(metadata));
}

}  // namespace forerun
