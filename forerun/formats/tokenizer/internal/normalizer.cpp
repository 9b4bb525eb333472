#include "forerun/formats/tokenizer/internal/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "forerun/base/utf8.h"

namespace forerun::internal {
namespace {

// Characters that the reference's older Unicode takes for unassigned: they neither move nor compose
// there, so the text before and after them is normalised by itself. Most are combining marks;
// U+11930 is the second half of U+11938. Source: normalizers.NFC of Hugging Face tokenizers 0.23.
constexpr std::array<std::pair<char32_t, char32_t>, 37> kFixed = {{
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
}};

bool is_fixed(char32_t c) {
  const auto after =
      std::upper_bound(kFixed.begin(), kFixed.end(), c,
                       [](char32_t code, const auto& range) { return code < range.first; });
  return after != kFixed.begin() && c <= (after - 1)->second;
}

std::string nfc_between(std::string_view text) {
  utf8proc_uint8_t* raw = nullptr;
  const auto option = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &raw, option);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, &std::free);
  if (size < 0) throw std::bad_alloc();  // well-formed text fails for want of memory only
  return std::string(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size));
}

std::string nfc(std::string text) {
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return text;
  std::string out;
  std::size_t done = 0;
  const std::string_view all = text;
  for (std::size_t at = 0; at < all.size();) {
    const Utf8Char c = first_char(all.substr(at));
    if (is_fixed(c.code)) {
      out += nfc_between(all.substr(done, at - done));
      out += all.substr(at, c.size);
      done = at + c.size;
    }
    at += c.size;
  }
  return out + nfc_between(all.substr(done));
}

// None where the result has more than `most` bytes.
std::optional<std::string> replaced(std::string_view text, const Replace& step, std::size_t most) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(step.from); at != text.npos; at = text.find(step.from, done)) {
    out += text.substr(done, at - done);
    out += step.to;
    done = at + step.from.size();
    if (out.size() > most) return std::nullopt;
  }
  out += text.substr(done);
  return out;
}

std::optional<std::string> after(const NormalizeStep& step, std::string text, std::size_t most) {
  if (std::holds_alternative<Nfc>(step)) return nfc(std::move(text));
  if (const auto* replace = std::get_if<Replace>(&step)) return replaced(text, *replace, most);
  const auto* prepend = std::get_if<Prepend>(&step);
  return text.empty() ? text : prepend->text + text;
}

}  // namespace

Result<std::string> normalized(std::string text, const std::vector<NormalizeStep>& steps) {
  const std::size_t given = text.size(), most = 16 * given + 256;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::optional<std::string> next = after(steps[i], std::move(text), most);
    if (!next || next->size() > most) {
      return Error{fmt::format(
          "normalizer: step {} of {} makes more than {} bytes of a text of {}; its file "
          "is damaged or made to do harm, download the tokenizer again",
          i + 1, steps.size(), most, given)};
    }
    text = *std::move(next);
  }
  return text;
}

}  // namespace forerun::internal
