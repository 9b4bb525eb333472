#include "forerun/formats/png.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/support/mutate.h"
#include "tests/support/png_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::build_png;
using testing::PngSpec;
using testing::SplitMix64;

std::span<const std::byte> png_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string png_error(std::string_view file) {
  const Result<Image> parsed = parse_png(png_bytes(file));
  return parsed ? "no error" : parsed.error().message;
}

Image random_image(std::int64_t width, std::int64_t height, std::int64_t channels,
                   std::uint64_t seed) {
  Image out{.width = width, .height = height, .channels = channels, .pixels = {}};
  SplitMix64 rng{seed};
  for (std::int64_t i = width * height * channels; i > 0; --i) {
    out.pixels.push_back(static_cast<std::uint8_t>(rng()));
  }
  return out;
}

void expect_equal(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  EXPECT_EQ(a.channels, b.channels);
  EXPECT_EQ(a.pixels, b.pixels);
}

PngSpec random_spec(int colour, int depth, bool interlaced) {
  PngSpec spec{.width = 13,
               .height = 11,
               .depth = depth,
               .colour = colour,
               .interlaced = interlaced,
               .samples = {}};
  SplitMix64 rng{static_cast<std::uint64_t>(colour * 100 + depth)};
  const std::size_t count = 143 * testing::samples_per_pixel(colour);
  for (std::size_t i = 0; i < count; ++i) {
    spec.samples.push_back(static_cast<std::uint16_t>(rng.below(std::size_t{1} << depth)));
  }
  if (colour == 3) {
    for (int i = 0; i < 3 << depth; ++i) spec.palette += static_cast<char>(rng());
  }
  return spec;
}

// What parse_png documents, from the definition: no integer tricks.
std::uint8_t to_8_bits(std::uint16_t sample, int depth) {
  return static_cast<std::uint8_t>(std::lround(sample * 255.0 / ((1 << depth) - 1)));
}

std::uint8_t on_white(std::uint8_t sample, std::uint8_t alpha) {
  return static_cast<std::uint8_t>(std::lround((sample * alpha + 255.0 * (255 - alpha)) / 255.0));
}

Image expected(const PngSpec& spec) {
  const bool alpha = spec.colour >= 4;
  const std::size_t per_pixel = testing::samples_per_pixel(spec.colour);
  Image out{.width = spec.width,
            .height = spec.height,
            .channels = spec.colour % 4 == 0 ? 1 : 3,
            .pixels = {}};
  for (std::size_t at = 0; at < spec.samples.size(); at += per_pixel) {
    const std::uint16_t* pixel = spec.samples.data() + at;
    for (std::size_t c = 0; c < static_cast<std::size_t>(out.channels); ++c) {
      if (spec.colour == 3) {
        out.pixels.push_back(
            static_cast<std::uint8_t>(spec.palette[std::size_t{3} * pixel[0] + c]));
      } else if (alpha) {
        out.pixels.push_back(
            on_white(to_8_bits(pixel[c], spec.depth), to_8_bits(pixel[per_pixel - 1], spec.depth)));
      } else {
        out.pixels.push_back(to_8_bits(pixel[c], spec.depth));
      }
    }
  }
  return out;
}

TEST(Png, ReadsEveryColourTypeAndDepth) {
  const std::vector<std::pair<int, std::vector<int>>> kinds{
      {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}};
  for (const auto& [colour, depths] : kinds) {
    for (const int depth : depths) {
      for (const bool interlaced : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "colour type " << colour << ", " << depth
                                          << " bits, interlaced " << interlaced);
        const PngSpec spec = random_spec(colour, depth, interlaced);
        const Result<Image> parsed = parse_png(png_bytes(build_png(spec)));
        ASSERT_TRUE(parsed) << parsed.error().message;
        expect_equal(*parsed, expected(spec));
      }
    }
  }
}

TEST(Png, RoundsSixteenBitsToTheNearest) {
  PngSpec spec{.width = 1024, .height = 64, .depth = 16, .samples = {}};
  for (int i = 0; i < 65536; ++i) spec.samples.push_back(static_cast<std::uint16_t>(i));
  const Result<Image> parsed = parse_png(png_bytes(build_png(spec)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  expect_equal(*parsed, expected(spec));
}

TEST(Png, LaysEveryAlphaOntoWhite) {
  PngSpec spec{.width = 256, .height = 256, .colour = 4, .samples = {}};
  for (int i = 0; i < 65536; ++i) {
    spec.samples.push_back(static_cast<std::uint16_t>(i / 256));
    spec.samples.push_back(static_cast<std::uint16_t>(i % 256));
  }
  const Result<Image> parsed = parse_png(png_bytes(build_png(spec)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->channels, 1);
  expect_equal(*parsed, expected(spec));
}

TEST(Png, LaysTransparentColoursOntoWhite) {
  const PngSpec grey{
      .width = 3, .depth = 2, .samples = {0, 1, 2}, .transparency = std::string("\0\1", 2)};
  EXPECT_EQ((*parse_png(png_bytes(build_png(grey)))).pixels,
            (std::vector<std::uint8_t>{0, 255, 170}));

  const PngSpec rgb{.width = 2,
                    .colour = 2,
                    .samples = {1, 2, 3, 1, 2, 4},
                    .transparency = std::string("\0\1\0\2\0\3", 6)};
  EXPECT_EQ((*parse_png(png_bytes(build_png(rgb)))).pixels,
            (std::vector<std::uint8_t>{255, 255, 255, 1, 2, 4}));

  const PngSpec palette{.width = 3,
                        .depth = 1 + 1,
                        .colour = 3,
                        .samples = {2, 1, 0},
                        .palette = std::string("\0\0\0\x0a\x14\x1e\x28\x32\x3c", 9),
                        .transparency = std::string("\0\x80", 2)};
  EXPECT_EQ((*parse_png(png_bytes(build_png(palette)))).pixels,
            (std::vector<std::uint8_t>{40, 50, 60, on_white(10, 128), on_white(20, 128),
                                       on_white(30, 128), 255, 255, 255}));
}

// Readers that honour gAMA or sRGB would give other numbers than the tools data sets are made with.
TEST(Png, LeavesGammaAlone) {
  PngSpec spec = random_spec(2, 8, false);
  spec.chunks = testing::png_chunk("gAMA", testing::big_endian(100000));
  const Result<Image> parsed = parse_png(png_bytes(build_png(spec)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  expect_equal(*parsed, expected(spec));
}

TEST(Png, EncodingAndParsingGivesTheImageBack) {
  for (const std::int64_t channels : {1, 3}) {
    for (const auto& [width, height] : {std::pair{1, 1}, {1, 9}, {28, 28}, {127, 33}, {16384, 2}}) {
      const Image image = random_image(width, height, channels, 7);
      const Result<Image> parsed = parse_png(png_bytes(encode_png(image)));
      ASSERT_TRUE(parsed) << parsed.error().message;
      expect_equal(*parsed, image);
    }
  }
}

TEST(Png, EveryTruncationIsAnError) {
  for (const std::string& file :
       {encode_png(random_image(9, 7, 3, 1)), build_png(random_spec(3, 4, true))}) {
    for (std::size_t n = 0; n < file.size(); ++n) {
      const std::string message = png_error(file.substr(0, n));
      EXPECT_EQ(message, "the file ends too early; write it again") << n << " of " << file.size();
    }
    EXPECT_EQ(png_error(file), "no error");
    EXPECT_EQ(png_error(file + "behind"), "no error");
  }
}

TEST(Png, DamageToPixelsIsAnErrorAndToCommentsIsNot) {
  PngSpec spec = random_spec(0, 8, false);
  std::string comment = testing::png_chunk("tEXt", std::string("Title\0x", 7));
  comment.back() ^= 1;
  spec.chunks = comment;
  std::string file = build_png(spec);
  EXPECT_EQ(png_error(file), "no error");
  const std::size_t data = file.find("IDAT") + 4;
  file[data + 16] ^= 1;
  EXPECT_EQ(png_error(file), "IDAT: incorrect data check; write it again");
  file[data + 16] ^= 1;
  file[file.find("IEND") - 5] ^= 1;  // the checksum of the chunk before
  EXPECT_EQ(png_error(file), "IDAT: CRC error; write it again");
}

TEST(Png, DataForFewerRowsThanPromisedIsAnError) {
  PngSpec spec = random_spec(0, 8, false);
  std::string file = build_png(spec);
  file.replace(20, 4, testing::big_endian(spec.height + 1));
  EXPECT_EQ(png_error(testing::with_right_checksums(file)),
            "Not enough image data; write it again");
}

TEST(Png, RefusesOtherFiles) {
  EXPECT_EQ(png_error("\xff\xd8\xff\xe0 JFIF"), "is not a PNG file; convert it to PNG");
  EXPECT_EQ(png_error(""), "the file ends too early; write it again");
}

TEST(Png, RefusesExcessiveSizesBeforeAllocating) {
  const auto claiming = [](std::uint32_t width, std::uint32_t height) {
    std::string file = build_png({.samples = {0}});
    file.replace(16, 8, testing::big_endian(width) + testing::big_endian(height));
    return png_error(testing::with_right_checksums(file));
  };
  EXPECT_EQ(claiming(1, 16385),
            "1 x 16385 pixels; forerun reads up to 16384 a side and 67108864 in all: make it "
            "smaller");
  EXPECT_EQ(claiming(16384, 8192),
            "16384 x 8192 pixels; forerun reads up to 16384 a side and 67108864 in all: make it "
            "smaller");
  EXPECT_EQ(claiming(0x7fffffff, 0x7fffffff).substr(0, 30), "2147483647 x 2147483647 pixels");
  EXPECT_EQ(claiming(8192, 8192), "8192 x 8192 pixels do not fit in its 67 bytes; write it again");
  EXPECT_NE(claiming(0, 1), "no error");
  EXPECT_NE(claiming(0x80000000, 1), "no error");
}

TEST(Png, TheBestCompressedImageIsNotRefused) {
  Image image{.width = 2048, .height = 2048, .channels = 3, .pixels = {}};
  image.pixels.assign(std::size_t{3} << 22, 0);
  const Result<Image> parsed = parse_png(png_bytes(encode_png(image)));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->pixels, image.pixels);
}

TEST(Png, WritesAndLoadsFiles) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "a.png";
  const Image image = random_image(5, 6, 3, 3);
  write_png(path, image);
  EXPECT_EQ(testing::read_file(path), encode_png(image));
  const Result<Image> loaded = load_png(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_equal(*loaded, image);

  EXPECT_THROW(write_png(folder.path() / "none" / "a.png", image), FormatError);
  const auto text = folder.write("b.png", "GIF89a");
  EXPECT_EQ(load_png(text).error().message,
            text.string() + ": is not a PNG file; convert it to PNG");
  EXPECT_EQ(load_png(folder.path() / "c.png").error().message,
            (folder.path() / "c.png").string() + ": no such file; check the path");
}

TEST(Png, RefusesImagesThatAreNone) {
  EXPECT_THROW((void)encode_png({}), std::invalid_argument);
  EXPECT_THROW((void)encode_png(
                   {.width = 2, .height = 2, .channels = 2, .pixels = {1, 2, 3, 4, 5, 6, 7, 8}}),
               std::invalid_argument);
  EXPECT_THROW((void)encode_png({.width = 2, .height = 2, .channels = 1, .pixels = {1, 2, 3}}),
               std::invalid_argument);
  EXPECT_THROW(
      (void)encode_png(
          {.width = 16385, .height = 1, .channels = 1, .pixels = std::vector<std::uint8_t>(16385)}),
      std::invalid_argument);
}

TEST(Png, TileLaysImagesOutRowByRow) {
  std::vector<Image> images;
  for (std::uint8_t i = 1; i <= 3; ++i) {
    images.push_back(
        {.width = 2, .height = 1, .channels = 1, .pixels = {i, static_cast<std::uint8_t>(10 * i)}});
  }
  const Image grid = tile(images, 2, 1);
  EXPECT_EQ(grid.width, 5);
  EXPECT_EQ(grid.height, 3);
  EXPECT_EQ(grid.pixels, (std::vector<std::uint8_t>{1, 10, 255, 2, 20,        //
                                                    255, 255, 255, 255, 255,  //
                                                    3, 30, 255, 255, 255}));
  const Image row = tile(images, 9, 0);
  EXPECT_EQ(row.width, 6);
  EXPECT_EQ(row.pixels, (std::vector<std::uint8_t>{1, 10, 2, 20, 3, 30}));
}

TEST(Png, TileKeepsColours) {
  const std::vector<Image> images{random_image(3, 4, 3, 1), random_image(3, 4, 3, 2)};
  const Image grid = tile(images, 1, 2);
  ASSERT_EQ(grid.channels, 3);
  ASSERT_EQ(grid.height, 10);
  std::vector<std::uint8_t> pixels = images[0].pixels;
  pixels.insert(pixels.end(), 18, 255);
  pixels.insert(pixels.end(), images[1].pixels.begin(), images[1].pixels.end());
  EXPECT_EQ(grid.pixels, pixels);
}

TEST(Png, TileRefusesWhatIsNoGrid) {
  const Image one = random_image(2, 3, 1, 1), turned = random_image(3, 2, 1, 1);
  EXPECT_THROW((void)tile({}, 1, 0), std::invalid_argument);
  EXPECT_THROW((void)tile(std::vector{one}, 0, 0), std::invalid_argument);
  EXPECT_THROW((void)tile(std::vector{one}, 1, -1), std::invalid_argument);
  EXPECT_THROW((void)tile(std::vector{one, turned}, 1, 0), std::invalid_argument);
  EXPECT_THROW((void)tile(std::vector{one, one}, 2, 16384), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
