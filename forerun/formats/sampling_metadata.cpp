#include "forerun/formats/sampling_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace forerun {
namespace {

struct Range {
  double least, most;
};
constexpr Range kTemperature{0.0, 1000.0}, kShare{0.0, 1.0}, kPenalty{0.01, 100.0},
    kTopK{-INT32_MAX, INT32_MAX}, kTokens{1, INT32_MAX};

// Reads numbers by name, and keeps the first error.
template <class Find>
class Numbers {
 public:
  explicit Numbers(Find find) : find_(std::move(find)) {}

  std::optional<double> operator()(const char* name, Range range) {
    const Result<std::optional<double>> found = find_(name);
    if (!found) {
      if (!error_) error_ = found.error();
      return std::nullopt;
    }
    const std::optional<double> value = *found;
    if (value && !(*value >= range.least && *value <= range.most)) {
      if (!error_) {
        error_ = Error{
            fmt::format("{} holds {}, expected {} to {}", name, *value, range.least, range.most)};
      }
      return std::nullopt;
    }
    return value;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  Find find_;
  std::optional<Error> error_;
};

struct Names {
  const char *temperature, *top_k, *top_p, *min_p, *penalty;
  const char* tokens;  // null: there is no such key
};

template <class Find>
Result<RecommendedSampling> read(Find find, const Names& names) {
  Numbers number(std::move(find));
  RecommendedSampling out;
  out.temperature = number(names.temperature, kTemperature);
  if (const auto k = number(names.top_k, kTopK)) {
    out.top_k = static_cast<std::uint32_t>(std::max(0.0, *k));
  }
  out.top_p = number(names.top_p, kShare);
  out.min_p = number(names.min_p, kShare);
  out.repetition_penalty = number(names.penalty, kPenalty);
  if (names.tokens != nullptr) {
    const auto tokens = number(names.tokens, kTokens);
    if (tokens) out.max_tokens = static_cast<std::uint32_t>(*tokens);
  }
  if (number.error()) return *number.error();
  return out;
}

// The number that was written: 0.95 in place of the float32 next to it.
double as_written(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

}  // namespace

Result<RecommendedSampling> parse_generation_config(const nlohmann::json& object) {
  const auto find = [&](const char* name) -> Result<std::optional<double>> {
    const auto at = object.find(name);
    if (at == object.end() || at->is_null()) return std::optional<double>();
    if (!at->is_number()) {
      return Error{fmt::format("{} holds a {}, expected a number", name, at->type_name())};
    }
    return std::optional<double>(at->get<double>());
  };
  Result<RecommendedSampling> out = read(
      find, {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens"});
  if (!out) return out;
  const auto sampled = object.find("do_sample");
  if (sampled == object.end() || *sampled != false) return out;
  RecommendedSampling greedy = *out;
  greedy.temperature = 0.0;
  return greedy;
}

Result<RecommendedSampling> sampling_of(const Gguf& gguf) {
  const auto find = [&](const char* name) -> Result<std::optional<double>> {
    const GgufValue* value = gguf.find_value(name);
    if (value == nullptr) return std::optional<double>();
    if (const auto whole = gguf_cast<std::int64_t>(*value)) {
      return std::optional<double>(static_cast<double>(*whole));
    }
    if (const auto* single = std::get_if<float>(value)) {
      return std::optional<double>(as_written(*single));
    }
    const Result<double> number = gguf_cast<double>(*value);
    if (!number) return Error{fmt::format("{}: {}", name, number.error().message)};
    return std::optional<double>(*number);
  };
  return read(find, {"general.sampling.temp", "general.sampling.top_k", "general.sampling.top_p",
                     "general.sampling.min_p", "general.sampling.penalty_repeat", nullptr});
}

}  // namespace forerun
