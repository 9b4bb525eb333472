#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "forerun/base/result.h"
#include "forerun/formats/gguf.h"

namespace forerun::internal {

/// Reads "<architecture>.<key>"; keeps the first missing or mistyped one, which ends the parse.
class GgufKeys {
 public:
  GgufKeys(const Gguf& gguf, std::string prefix) : gguf_(gguf), prefix_(std::move(prefix)) {}

  std::int64_t integer(const char* key) { return take(gguf_.read<std::int64_t>(full(key))); }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    return take(gguf_.read_or<std::int64_t>(full(key), otherwise));
  }
  double number(const char* key, double otherwise) {
    return take(gguf_.read_or<double>(full(key), otherwise));
  }
  std::string text(const char* key, std::string_view otherwise) {
    return std::string(take(gguf_.read_or<std::string_view>(full(key), otherwise)));
  }
  bool has(const char* key) const { return gguf_.find_value(full(key)) != nullptr; }
  std::string full(const char* key) const { return prefix_ + "." + key; }
  const std::string& architecture() const { return prefix_; }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  template <class T>
  T take(Result<T> value) {
    if (value) return *std::move(value);
    fail(value.error().message);
    return T{};
  }

  const Gguf& gguf_;
  std::string prefix_;
  std::string error_;
};

}  // namespace forerun::internal
