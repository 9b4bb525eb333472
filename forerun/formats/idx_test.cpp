#include "forerun/formats/idx.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/idx_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::gzipped;
using testing::idx_file;
using testing::some_values;

std::span<const std::byte> raw(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string idx_error(std::string_view file) {
  const Result<IdxBytes> parsed = parse_idx(raw(file));
  return parsed ? "no error" : parsed.error().message;
}

TEST(Idx, ReadsShapeAndValues) {
  const std::string values = some_values(24);
  for (const std::string& file :
       {idx_file({2, 3, 4}, values), gzipped(idx_file({2, 3, 4}, values))}) {
    const Result<IdxBytes> parsed = parse_idx(raw(file));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->shape, (std::vector<std::int64_t>{2, 3, 4}));
    EXPECT_EQ(std::string(parsed->values.begin(), parsed->values.end()), values);
  }
}

TEST(Idx, SizesAreBigEndian) {
  const Result<IdxBytes> parsed = parse_idx(raw(idx_file({0x01020304, 0}, "")));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->shape, (std::vector<std::int64_t>{0x01020304, 0}));
  EXPECT_TRUE(parsed->values.empty());
}

// Larger than one piece of the unpacking, and no multiple of it.
TEST(Idx, ReadsLongGzipData) {
  const std::string values = some_values(300'001);
  const Result<IdxBytes> parsed = parse_idx(raw(gzipped(idx_file({300'001}, values))));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(std::string(parsed->values.begin(), parsed->values.end()), values);
}

TEST(Idx, GzipMembersAreOneStream) {
  const std::string file = idx_file({40}, some_values(40));
  for (std::size_t cut = 0; cut <= file.size(); ++cut) {
    const Result<IdxBytes> parsed =
        parse_idx(raw(gzipped(file.substr(0, cut)) + gzipped(file.substr(cut))));
    ASSERT_TRUE(parsed) << cut << ": " << parsed.error().message;
    EXPECT_EQ(std::string(parsed->values.begin(), parsed->values.end()), some_values(40));
  }
}

TEST(Idx, EveryTruncationIsAnError) {
  const std::string file = idx_file({3, 5}, some_values(15));
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(parse_idx(raw(file.substr(0, n)))) << n;
    EXPECT_FALSE(parse_idx(raw(gzipped(file.substr(0, n))))) << n;
  }
  const std::string packed = gzipped(file);
  for (std::size_t n = 0; n < packed.size(); ++n) {
    EXPECT_FALSE(parse_idx(raw(packed.substr(0, n)))) << n;
  }
}

TEST(Idx, ErrorsNameMissingAndExcessData) {
  const std::string file = idx_file({3, 5}, some_values(15));
  EXPECT_EQ(idx_error(file.substr(0, 3)),
            "ends after 3 bytes, within the header of an IDX file; download it again");
  EXPECT_EQ(idx_error(file.substr(0, 11)),
            "ends after 11 bytes, within the header of an IDX file; download it again");
  EXPECT_EQ(idx_error(file.substr(0, 20)),
            "truncated: the shape 3 x 5 takes 15 bytes, 8 are there; download it again");
  EXPECT_EQ(idx_error(file + 'x'),
            "goes on behind the 15 bytes that its shape 3 x 5 takes; download it again");
  EXPECT_EQ(idx_error(gzipped(file + 'x')),
            "goes on behind the 15 bytes that its shape 3 x 5 takes; download it again");
  EXPECT_EQ(idx_error(gzipped(file) + "xyz"),
            "3 bytes of something else behind the gzip data; download it again");
  const std::string packed = gzipped(file);
  EXPECT_EQ(idx_error(packed.substr(0, packed.size() - 1)),
            "truncated gzip data; download it again");
}

TEST(Idx, ChecksTheChecksumOfGzipData) {
  std::string packed = gzipped(idx_file({3, 5}, some_values(15)));
  packed[packed.size() - 8] ^= 1;
  EXPECT_EQ(idx_error(packed), "damaged gzip data (incorrect data check); download it again");
}

TEST(Idx, RefusesOtherFilesAndElementTypes) {
  EXPECT_EQ(idx_error("\x89PNG\r\n\x1a\n"),
            "starts with 89 50 4e 47, which is not the start of an IDX file; give a file such as "
            "train-images-idx3-ubyte.gz");
  EXPECT_EQ(idx_error(idx_file({1}, "x", 0x07)),
            "starts with 00 00 07 01, which is not the start of an IDX file; give a file such as "
            "train-images-idx3-ubyte.gz");
  EXPECT_EQ(idx_error(idx_file({1}, "abcd", 0x0D)),
            "holds 32-bit floats; forerun reads IDX files of unsigned bytes only");
  EXPECT_EQ(idx_error(idx_file({}, "")),
            "claims 0 dimensions; images have 3 and labels 1: download it again");
  EXPECT_EQ(idx_error(idx_file({1, 1, 1, 1, 1, 1, 1, 1, 1}, "x")),
            "claims 9 dimensions; images have 3 and labels 1: download it again");
}

// 4 GiB less one byte are claimed: filling them with zeros first would show in time and memory.
TEST(Idx, AClaimedSizeCostsNoMemory) {
  const std::string plain = idx_file({0xffffffff}, "x");
  EXPECT_EQ(idx_error(plain),
            "truncated: the shape 4294967295 takes 4294967295 bytes, 1 are there; download it "
            "again");
  EXPECT_EQ(idx_error(gzipped(plain)), idx_error(plain));
}

TEST(Idx, RefusesShapesThatOverflow) {
  EXPECT_EQ(idx_error(idx_file({0x80000000, 4}, "x")),
            "claims a shape of 2147483648 x 4, more than the 4 GiB that forerun reads; download "
            "it again, or split it");
  const std::uint32_t most = 0xffffffff;
  EXPECT_FALSE(parse_idx(raw(idx_file({most, most, most, most, most, most, most, most}, "x"))));
  EXPECT_FALSE(parse_idx(raw(idx_file({0x80000000, 0x80000000, 4}, ""))));  // 2^64, wrapped: 0
}

TEST(Idx, LoadingNamesTheFile) {
  const testing::TempFolder folder;
  const auto good = folder.write("good.gz", gzipped(idx_file({2}, "ab")));
  const Result<IdxBytes> loaded = load_idx(good);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->values, (std::vector<std::uint8_t>{'a', 'b'}));

  const auto bad = folder.write("bad", idx_file({2}, "a"));
  EXPECT_EQ(
      load_idx(bad).error().message,
      bad.string() + ": truncated: the shape 2 takes 2 bytes, 1 are there; download it again");
  EXPECT_EQ(load_idx(folder.path() / "none").error().message,
            (folder.path() / "none").string() + ": no such file; check the path");
  EXPECT_EQ(load_idx(folder.path()).error().message,
            folder.path().string() + ": is a folder; name a file in it");
}

}  // namespace
}  // namespace forerun
