#include "forerun/formats/internal/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace forerun::internal {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // zlib's way to ask for a gzip header and checksum
constexpr std::size_t kFirstPiece = std::size_t{1} << 16;

// zlib counts what is at hand in 32 bits.
uInt at_most_32_bits(std::size_t bytes) noexcept {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

}  // namespace

bool is_gzip(std::span<const std::byte> file) noexcept {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

struct GzipReader::Stream {
  z_stream zlib{};
  std::span<const std::byte> rest;
  bool ended = false;

  // Unpacks into [at, at + room), at least a byte unless the stream ends; returns the bytes.
  Result<std::size_t> inflate_some(std::uint8_t* at, std::size_t room);
};

GzipReader::GzipReader(std::span<const std::byte> file) : stream_(std::make_unique<Stream>()) {
  stream_->rest = file;
  if (inflateInit2(&stream_->zlib, kGzipWindow) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() { inflateEnd(&stream_->zlib); }

Result<std::size_t> GzipReader::Stream::inflate_some(std::uint8_t* at, std::size_t room) {
  zlib.next_out = at;
  zlib.avail_out = at_most_32_bits(room);
  const uInt given = zlib.avail_out;
  while (!ended && zlib.avail_out == given) {
    const uInt fed = at_most_32_bits(rest.size());
    // zlib does not write through next_in; its type lacks the const.
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest.data()));
    zlib.avail_in = fed;
    const int code = inflate(&zlib, Z_NO_FLUSH);
    rest = rest.subspan(fed - zlib.avail_in);
    if (code == Z_STREAM_END) {
      ended = !is_gzip(rest);
      if (!ended) inflateReset(&zlib);
      if (ended && !rest.empty()) {
        return Error{
            fmt::format("{} bytes of something else behind the gzip data; download it "
                        "again",
                        rest.size())};
      }
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code == Z_BUF_ERROR || (code == Z_OK && rest.empty() && zlib.avail_out == given)) {
      return Error{"truncated gzip data; download it again"};
    } else if (code != Z_OK) {
      return Error{fmt::format("damaged gzip data ({}); download it again",
                               zlib.msg != nullptr ? zlib.msg : "of no known kind")};
    }
  }
  return static_cast<std::size_t>(given - zlib.avail_out);
}

Result<std::vector<std::uint8_t>> GzipReader::read(std::size_t limit) {
  std::vector<std::uint8_t> out;
  std::size_t size = 0;
  while (size < limit && !stream_->ended) {
    if (size == out.size()) out.resize(std::min(limit, std::max(kFirstPiece, 2 * size)));
    const Result<std::size_t> more = stream_->inflate_some(out.data() + size, out.size() - size);
    if (!more) return more.error();
    size += *more;
  }
  out.resize(size);
  return out;
}

}  // namespace forerun::internal
