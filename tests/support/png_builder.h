#pragma once

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::testing {

/// An image as stored in a PNG file, built here by hand: parsers are not tested with their own
/// library's writer.
/// Source: PNG Specification, Third Edition.
struct PngSpec {
  std::uint32_t width = 1, height = 1;
  int depth = 8;                       ///< bits a sample
  int colour = 0;                      ///< 0 grey, 2 RGB, 3 palette, 4 grey alpha, 6 RGB alpha
  bool interlaced = false;             ///< Adam7
  std::vector<std::uint16_t> samples;  ///< [height, width, samples_per_pixel(colour)]
  std::string palette;                 ///< content of PLTE
  std::string transparency;            ///< content of tRNS
  std::string chunks;                  ///< whole chunks put before the palette
};

inline std::size_t samples_per_pixel(int colour) {
  return std::array<std::size_t, 7>{1, 0, 3, 1, 2, 0, 4}[static_cast<std::size_t>(colour)];
}

inline std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255);
  return out;
}

inline std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

inline std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(checksum(body));
}

namespace internal {

/// Rows of the pixels (x0 + i dx, y0 + j dy), each after its filter type 0.
inline std::string png_rows(const PngSpec& spec, std::uint32_t x0, std::uint32_t y0,
                            std::uint32_t dx, std::uint32_t dy) {
  const std::size_t per_pixel = samples_per_pixel(spec.colour);
  std::string out;
  for (std::uint32_t y = y0; y < spec.height && x0 < spec.width; y += dy) {
    out += '\0';
    unsigned bits = 0, held = 0;
    for (std::uint32_t x = x0; x < spec.width; x += dx) {
      for (std::size_t c = 0; c < per_pixel; ++c) {
        const std::size_t pixel = std::size_t{y} * spec.width + x;
        bits = bits << spec.depth | spec.samples.at(pixel * per_pixel + c);
        held += static_cast<unsigned>(spec.depth);
        for (; held >= 8; held -= 8) out += static_cast<char>(bits >> (held - 8) & 255);
      }
    }
    if (held > 0) out += static_cast<char>(bits << (8 - held) & 255);
  }
  return out;
}

}  // namespace internal

inline std::string build_png(const PngSpec& spec) {
  std::string rows;
  if (spec.interlaced) {
    rows = internal::png_rows(spec, 0, 0, 8, 8) + internal::png_rows(spec, 4, 0, 8, 8) +
           internal::png_rows(spec, 0, 4, 4, 8) + internal::png_rows(spec, 2, 0, 4, 4) +
           internal::png_rows(spec, 0, 2, 2, 4) + internal::png_rows(spec, 1, 0, 2, 2) +
           internal::png_rows(spec, 0, 1, 1, 2);
  } else {
    rows = internal::png_rows(spec, 0, 0, 1, 1);
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size,
               reinterpret_cast<const Bytef*>(rows.data()), rows.size()) != Z_OK) {
    throw std::runtime_error("build_png: zlib");
  }
  packed.resize(size);
  const std::string header =
      big_endian(spec.width) + big_endian(spec.height) +
      std::string{static_cast<char>(spec.depth), static_cast<char>(spec.colour), 0, 0,
                  static_cast<char>(spec.interlaced)};
  std::string out = "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + spec.chunks;
  if (!spec.palette.empty()) out += png_chunk("PLTE", spec.palette);
  if (!spec.transparency.empty()) out += png_chunk("tRNS", spec.transparency);
  return out + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

/// The file with corrected checksums of every recognisable chunk: damage then reaches the parser
/// after the checksum test.
inline std::string with_right_checksums(std::string file) {
  std::size_t at = 8;
  while (file.size() >= at + 12) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<unsigned char>(file[at + i]);
    }
    if (length > file.size() - at - 12) break;
    const std::string_view body = std::string_view(file).substr(at + 4, length + 4);
    file.replace(at + 8 + length, 4, big_endian(checksum(body)));
    at += length + 12;
  }
  return file;
}

}  // namespace forerun::testing
