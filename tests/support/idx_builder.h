#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::testing {

/// An IDX file, valid or invalid: the header has the requested claims, the data are independent of
/// it.
inline std::string idx_file(const std::vector<std::uint32_t>& shape, std::string_view values,
                            char type = 0x08) {
  std::string out{0, 0, type, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 255);
  }
  return out + std::string(values);
}

/// `size` bytes of a fixed pattern: 0, 37, 74, ...
inline std::string some_values(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 37 % 256);
  return out;
}

inline std::string gzipped(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("gzipped: zlib");
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("gzipped: zlib");
  return out;
}

}  // namespace forerun::testing
