#include "forerun/formats/npy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "m.npy";
  std::vector<float> numbers(12);
  for (std::size_t i = 0; i < 12; ++i) numbers[i] = static_cast<float>(i) / 8;
  NpyWriter writer(path, 4);
  writer.write_rows(std::span(numbers).first(4));
  writer.write_rows({});
  writer.write_rows(std::span(numbers).subspan(4));
  EXPECT_EQ(writer.rows(), 3);
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();
  EXPECT_EQ(testing::read_file(path),
            testing::read_file(FORERUN_SOURCE_DIR "/tests/data/formats/matrix.npy"));
}

TEST(Npy, AMatrixWithoutRowsIsAMatrix) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "m.npy";
  NpyWriter(path, 5).finish();
  const std::string file = testing::read_file(path);
  EXPECT_EQ(file.size(), 128u);
  EXPECT_NE(file.find("'shape': (0, 5), }"), std::string::npos);
}

TEST(Npy, TheHeaderHoldsTheLargestShape) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "m.npy";
  NpyWriter(path, std::numeric_limits<std::int64_t>::max()).finish();
  EXPECT_EQ(testing::read_file(path).substr(127), "\n");
}

TEST(Npy, RefusesPartsOfRows) {
  const testing::TempFolder folder;
  const std::vector<float> numbers(7);
  NpyWriter writer(folder.path() / "m.npy", 3);
  EXPECT_THROW(writer.write_rows(numbers), std::invalid_argument);
  EXPECT_THROW(NpyWriter(folder.path() / "n.npy", 0), std::invalid_argument);
}

TEST(Npy, LeavesNothingUnlessFinished) {
  const testing::TempFolder folder;
  const std::vector<float> numbers(6);
  { NpyWriter(folder.path() / "m.npy", 3).write_rows(numbers); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace forerun
