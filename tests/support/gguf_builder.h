#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::testing {

/// Writes GGUF bytes, valid and invalid ones: every number of the format can be set.
class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::string magic = "GGUF";
  std::uint64_t extra_entries = 0, extra_tensors = 0;  ///< announced but not written
  std::uint64_t alignment = 32;
  std::string data;  ///< after the header, padded to the alignment

  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string text(std::string_view s) { return raw<std::uint64_t>(s.size()).append(s); }

  /// @param payload  the value's bytes as they lie in the file
  GgufBuilder& entry(std::string_view key, std::uint32_t type, std::string_view payload) {
    entries_.append(text(key)).append(raw(type)).append(payload);
    ++entry_count_;
    return *this;
  }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    return entry(key, 8, text(value));
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) { return entry(key, 4, raw(value)); }
  GgufBuilder& strings(std::string_view key, std::span<const std::string_view> values) {
    std::string payload = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const std::string_view value : values) payload += text(value);
    return entry(key, 9, payload);
  }
  /// @param dims  innermost first, as in the file
  GgufBuilder& tensor(std::string_view name, std::vector<std::int64_t> dims, std::uint32_t type,
                      std::uint64_t offset) {
    tensors_.append(text(name)).append(raw(static_cast<std::uint32_t>(dims.size())));
    for (const std::int64_t n : dims) tensors_ += raw(n);
    tensors_.append(raw(type)).append(raw(offset));
    ++tensor_count_;
    return *this;
  }

  std::string bytes() const {
    std::string out = magic + raw(version) + raw(tensor_count_ + extra_tensors) +
                      raw(entry_count_ + extra_entries) + entries_ + tensors_;
    if (tensor_count_ > 0) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }

 private:
  std::string entries_, tensors_;
  std::uint64_t entry_count_ = 0, tensor_count_ = 0;
};

/// A small valid file with a tensor of every kind of layout, for mutation tests.
inline std::string small_gguf() {
  GgufBuilder b;
  const std::vector<std::string_view> tokens{"<s>", "a", "b", "ab"};
  b.string("general.architecture", "llama").u32("llama.block_count", 1).strings("tokens", tokens);
  b.entry("scores", 9,
          GgufBuilder::raw<std::uint32_t>(6) + GgufBuilder::raw<std::uint64_t>(2) +
              GgufBuilder::raw(0.5f) + GgufBuilder::raw(-1.0f));
  b.tensor("plain", {3, 2}, 0, 0).tensor("q8", {32, 2}, 8, 32).tensor("q6", {256}, 14, 128);
  for (int i = 0; i < 128 + 210; ++i) b.data += static_cast<char>(i * 37);
  return b.bytes();
}

}  // namespace forerun::testing
