#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "forerun/base/atomic_file.h"

namespace forerun {

/// Writes a matrix of float32 as a NumPy file (format 1.0, C order) a few rows at a time; the file
/// appears when finish() returns. Byte for byte what numpy.save writes.
/// Source: numpy.lib.format, "NPY format".
class NpyWriter {
 public:
  /// @throws FormatError            as AtomicFile
  /// @throws std::invalid_argument  columns < 1
  NpyWriter(const std::filesystem::path& path, std::int64_t columns);

  /// @param rows  [n, columns] float32, n >= 0
  /// @throws FormatError            the disk is full, ...; nothing is kept
  /// @throws std::invalid_argument  not whole rows
  void write_rows(std::span<const float> rows);

  void finish();

  std::int64_t rows() const noexcept { return rows_; }

 private:
  AtomicFile file_;
  std::int64_t columns_;
  std::int64_t rows_ = 0;
};

}  // namespace forerun
