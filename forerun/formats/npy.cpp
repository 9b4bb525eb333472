#include "forerun/formats/npy.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace forerun {
namespace {

// 10 bytes before the text, and two numbers of 19 digits: always less than 128.
constexpr std::size_t kHeaderBytes = 128;

std::string header(std::int64_t rows, std::int64_t columns) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(kHeaderBytes - 10);
  out += '\0';
  out +=
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  out.resize(kHeaderBytes - 1, ' ');
  return out + '\n';
}

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, std::int64_t columns)
    : file_(path), columns_(columns) {
  if (columns < 1) {
    throw std::invalid_argument(fmt::format("NpyWriter: {} columns; give at least 1", columns));
  }
  const std::string start = header(0, columns);  // finish() puts the number of rows in
  file_.append(std::as_bytes(std::span(start)));
}

void NpyWriter::write_rows(std::span<const float> rows) {
  const auto columns = static_cast<std::size_t>(columns_);
  if (rows.size() % columns != 0) {
    throw std::invalid_argument(
        fmt::format("NpyWriter: {} numbers are not whole rows of {}", rows.size(), columns));
  }
  file_.append(std::as_bytes(rows));
  rows_ += static_cast<std::int64_t>(rows.size() / columns);
}

void NpyWriter::finish() {
  const std::string start = header(rows_, columns_);
  file_.overwrite(0, std::as_bytes(std::span(start)));
  file_.commit();
}

}  // namespace forerun
