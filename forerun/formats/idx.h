#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "forerun/base/result.h"

namespace forerun {

/// An array of unsigned bytes as the MNIST family of data sets stores images ([n, height, width])
/// and labels ([n]).
struct IdxBytes {
  std::vector<std::int64_t> shape;   ///< outermost first, at least one dimension
  std::vector<std::uint8_t> values;  ///< row-major, exactly the product of `shape`
};

/// Reads an IDX file from memory, plain or packed by gzip.
/// Errors: not IDX, elements other than unsigned bytes (names the type), other than 1 to 8
/// dimensions, a shape beyond 4 GiB, data that end before or go on behind what the shape takes,
/// damaged gzip data. Memory is taken for the data that are there, whatever the header claims.
/// Source: LeCun, Cortes and Burges, "The MNIST database", file formats.
Result<IdxBytes> parse_idx(std::span<const std::byte> file);

/// Error: the path, then as parse_idx, or why the file cannot be read.
Result<IdxBytes> load_idx(const std::filesystem::path& path);

/// The shape that the header claims; no data are unpacked. Errors: as load_idx, of the header.
Result<std::vector<std::int64_t>> load_idx_shape(const std::filesystem::path& path);

}  // namespace forerun
