#define PCRE2_CODE_UNIT_WIDTH 8
#include "forerun/formats/tokenizer/internal/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::uint32_t step_limit(std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(kMost, 1'000'000 + 64 * std::min(bytes, kMost)));
}

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* raw =
      pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (raw == nullptr) {
    return Error{fmt::format("pattern {} is not valid at byte {}: {}", quote(pattern, 200), at,
                             message_of(error))};
  }
  std::shared_ptr<const pcre2_code> code(
      raw, [](const pcre2_code* c) { pcre2_code_free(const_cast<pcre2_code*>(c)); });
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(raw, PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0) {
    return Error{fmt::format("pattern {} matches the empty text; every match must take a character",
                             quote(pattern, 200))};
  }
  // Where there is no JIT compiler, matching falls back to the interpreter by itself.
  pcre2_jit_compile(raw, PCRE2_JIT_COMPLETE);
  return Regex(std::move(code));
}

std::vector<Range> Regex::matches(std::string_view text) const {
  const MatchData data(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), step_limit(text.size()));

  std::vector<Range> out;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code_.get(), units(text), text.size(), from, options | PCRE2_NO_UTF_CHECK,
                         data.get(), context.get());
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);  // that one uses the heap
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw std::runtime_error(
          fmt::format("tokenizer: splitting {} bytes failed at byte {}: {}; the split pattern of "
                      "this tokenizer is too slow for "
                      "this text, pass it in smaller parts",
                      text.size(), from, message_of(found)));
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[1] <= from) break;  // cannot be: such patterns are refused
    out.push_back({ends[0], ends[1]});
    from = ends[1];
  }
  return out;
}

}  // namespace forerun::internal
