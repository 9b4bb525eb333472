#include "forerun/formats/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <type_traits>

#include "forerun/formats/internal/image_limits.h"
#include "forerun/formats/internal/parse_file.h"

namespace forerun {
namespace {

constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::int64_t kMaxDeflateRatio = 1032;  // zlib's technical details, "Maximum compression"

// libpng reports an error by a call that must not return, and leaves by longjmp. What is jumped
// over may hold nothing that has a destructor: hence a plain buffer, and succeeds() below.
struct Source {
  std::span<const std::byte> rest;
  char message[160];
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof source->message, "%s", message);
  png_longjmp(png, 1);
}

// Damage to chunks that pixels do not depend on.
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, std::size_t bytes) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (bytes > source->rest.size()) png_error(png, "the file ends too early");
  std::memcpy(out, source->rest.data(), bytes);
  source->rest = source->rest.subspan(bytes);
}

struct Decoder {
  explicit Decoder(std::span<const std::byte> file) : source{file, {}} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  Error damaged() const { return {fmt::format("{}; write it again", source.message)}; }

  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

/// False where a call of libpng in `calls` failed; decoder.source.message then says why.
template <class Calls>
bool succeeds(Decoder& decoder, Calls calls) {
  static_assert(std::is_trivially_destructible_v<Calls>);
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  calls(decoder.png, decoder.info);
  return true;
}

std::optional<Error> check_signature(std::span<const std::byte> file) {
  const std::size_t have = std::min(file.size(), kSignature.size());
  if (!std::ranges::equal(file.first(have), std::as_bytes(std::span(kSignature)).first(have))) {
    return Error{"is not a PNG file; convert it to PNG"};
  }
  if (have < kSignature.size()) return Error{"the file ends too early; write it again"};
  return std::nullopt;
}

/// What can be refused before memory is taken for the pixels.
std::optional<Error> check_size(const Decoder& decoder, std::size_t file_bytes) {
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  if (!internal::fits_limits(width, height)) {
    return Error{
        fmt::format("{} x {} pixels; forerun reads up to {} a side and {} in all: make it "
                    "smaller",
                    width, height, internal::kMaxImageSide, internal::kMaxImagePixels)};
  }
  const auto row = static_cast<std::int64_t>(png_get_rowbytes(decoder.png, decoder.info));
  if (row * height / kMaxDeflateRatio > static_cast<std::int64_t>(file_bytes)) {
    return Error{fmt::format("{} x {} pixels do not fit in its {} bytes; write it again", width,
                             height, file_bytes)};
  }
  return std::nullopt;
}

void ask_for_8_bit_samples(png_structp png, png_infop info) {
  png_set_expand(png);    // palettes to colours, 1 to 4 bits to 8, a transparent colour to alpha
  png_set_scale_16(png);  // rounds, where png_set_strip_16 would cut
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

/// @param samples   [pixels, channels], the last channel alpha
/// @param channels  2 or 4
/// @return          [pixels, channels - 1]
std::vector<std::uint8_t> laid_onto_white(std::span<const std::uint8_t> samples,
                                          std::size_t channels) {
  std::vector<std::uint8_t> out;
  out.reserve(samples.size() / channels * (channels - 1));
  for (std::size_t at = 0; at < samples.size(); at += channels) {
    const int alpha = samples[at + channels - 1];
    for (std::size_t c = 0; c + 1 < channels; ++c) {
      const int sum = samples[at + c] * alpha + 255 * (255 - alpha);
      out.push_back(static_cast<std::uint8_t>((sum + 127) / 255));
    }
  }
  return out;
}

}  // namespace

Result<Image> parse_png(std::span<const std::byte> file) {
  if (std::optional<Error> wrong = check_signature(file)) return *std::move(wrong);
  Decoder decoder(file);
  if (decoder.info == nullptr) throw std::bad_alloc();
  const bool header_read = succeeds(decoder, [&](png_structp png, png_infop info) {
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() says more
    png_set_read_fn(png, &decoder.source, on_read);
    png_read_info(png, info);
  });
  if (!header_read) return decoder.damaged();
  if (std::optional<Error> wrong = check_size(decoder, file.size())) return *std::move(wrong);
  if (!succeeds(decoder, ask_for_8_bit_samples)) return decoder.damaged();

  Image out;
  out.width = png_get_image_width(decoder.png, decoder.info);
  out.height = png_get_image_height(decoder.png, decoder.info);
  const std::size_t channels = png_get_channels(decoder.png, decoder.info);
  const std::size_t row = png_get_rowbytes(decoder.png, decoder.info);
  const auto height = static_cast<std::size_t>(out.height);
  out.pixels.resize(row * height);
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = out.pixels.data() + y * row;
  const bool pixels_read = succeeds(decoder, [&](png_structp png, png_infop info) {
    png_read_image(png, rows.data());
    png_read_end(png, info);
  });
  if (!pixels_read) return decoder.damaged();

  out.channels = channels < 3 ? 1 : 3;
  if (channels % 2 == 0) out.pixels = laid_onto_white(out.pixels, channels);
  return out;
}

Result<Image> load_png(const std::filesystem::path& path) {
  return internal::parse_file(path, parse_png);
}

}  // namespace forerun
