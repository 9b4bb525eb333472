#include "forerun/base/base64.h"

#include <cstddef>
#include <cstdint>

namespace forerun {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) -> std::uint32_t {
      return i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U;
    };
    const std::uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kLetters[word >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

}  // namespace forerun
