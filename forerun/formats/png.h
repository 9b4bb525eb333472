#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "forerun/base/result.h"
#include "forerun/formats/image.h"

namespace forerun {

/// Reads a PNG file from memory. The samples are those stored, with no gamma or colour profile
/// applied, as data sets are commonly read. Grey stays 1 channel, palettes become 3; 16 bits are
/// rounded to 8, fewer are spread over 0 to 255; what is transparent is laid onto white.
/// Bytes behind the end of the image are let pass.
/// Errors: not PNG, more than 16384 pixels a side or 2^26 in all, truncated or damaged.
/// Source: PNG Specification, Third Edition (W3C).
Result<Image> parse_png(std::span<const std::byte> file);

/// Error: the path, then as parse_png, or why the file cannot be read.
Result<Image> load_png(const std::filesystem::path& path);

/// The bytes of a PNG file with 8 bits a sample; parse_png gives the same image back.
/// @throws std::invalid_argument  no pixels, too many (see parse_png), channels other than 1 or 3,
///                                or `pixels` of another size
std::string encode_png(const Image& image);

/// @throws FormatError            as AtomicFile
/// @throws std::invalid_argument  as encode_png
void write_png(const std::filesystem::path& path, const Image& image);

/// Lays images of one size and channel count out row by row, `columns` in a row (fewer if there are
/// fewer), with `gap` white pixels between neighbours and white where the last row is not full.
/// @throws std::invalid_argument  no images, images that differ, columns < 1, gap < 0, or a grid
///                                beyond the limits of parse_png
Image tile(std::span<const Image> images, std::int64_t columns, std::int64_t gap);

}  // namespace forerun
