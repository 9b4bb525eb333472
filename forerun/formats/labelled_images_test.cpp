#include "forerun/formats/labelled_images.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "forerun/formats/png.h"
#include "tests/support/idx_builder.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using testing::gzipped;
using testing::idx_file;
using testing::some_values;
using testing::TempFolder;

constexpr auto kTrain = ImageSplit::kTrain;
constexpr auto kTest = ImageSplit::kTest;

std::string images_error(const fs::path& folder, ImageSplit split = kTrain) {
  const Result<LabelledImages> loaded = load_labelled_images(folder, split);
  return loaded ? "no error" : loaded.error().message;
}

/// An image whose samples are `value`, `value` + 1, ... in the order they are stored.
Image counting(std::uint8_t value, std::int64_t width = 2, std::int64_t height = 2,
               std::int64_t channels = 1) {
  Image out{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (std::int64_t i = 0; i < width * height * channels; ++i) {
    out.pixels.push_back(static_cast<std::uint8_t>(value + i));
  }
  return out;
}

void put(const TempFolder& folder, const std::string& name, const Image& image) {
  fs::create_directories((folder.path() / name).parent_path());
  write_png(folder.path() / name, image);
}

std::string digits(std::initializer_list<char> values) { return {values}; }

// The data behind the header would take 3 GB, and are damaged: whoever unpacks them sees that.
TEST(LabelledImages, DecompressesNothingIfTheHeadersDisagree) {
  const TempFolder folder;
  std::string packed = gzipped(idx_file({1 << 22, 28, 28}, some_values(1 << 20)));
  packed.resize(packed.size() / 2);
  const auto images = folder.write("i.gz", packed);
  const auto labels = folder.write("l", idx_file({2}, digits({9, 0})));
  EXPECT_EQ(load_labelled_idx(images, labels).error().message,
            labels.string() + ": 2 labels for the 4194304 images of " + images.string() +
                "; give two files that belong together");
}

TEST(LabelledImages, ReadsAPairOfIdxFiles) {
  const TempFolder folder;
  const auto images = folder.write("i", idx_file({2, 2, 3}, some_values(12)));
  const auto labels = folder.write("l", gzipped(idx_file({2}, digits({9, 0}))));
  const Result<LabelledImages> loaded = load_labelled_idx(images, labels);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->size(), 2);
  EXPECT_EQ(loaded->height, 2);
  EXPECT_EQ(loaded->width, 3);
  EXPECT_EQ(loaded->channels, 1);
  EXPECT_EQ(std::string(loaded->pixels.begin(), loaded->pixels.end()), some_values(12));
  EXPECT_EQ(loaded->labels, (std::vector<std::int32_t>{9, 0}));
  EXPECT_EQ(loaded->classes,
            (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
}

TEST(LabelledImages, RefusesIdxFilesThatDoNotBelongTogether) {
  const TempFolder folder;
  const auto images = folder.write("i", idx_file({2, 2, 3}, some_values(12)));
  const auto row = folder.write("l", idx_file({3}, digits({1, 2, 3})));
  const auto high = folder.write("h", idx_file({2}, digits({1, 10})));
  const auto none = folder.write("n", idx_file({0, 2, 3}, ""));
  EXPECT_EQ(load_labelled_idx(images, row).error().message,
            row.string() + ": 3 labels for the 2 images of " + images.string() +
                "; give two files that belong together");
  EXPECT_EQ(load_labelled_idx(images, high).error().message,
            high.string() +
                ": label 10 of image 1 is out of range; labels are 0 to 9: give a file of labels");
  EXPECT_EQ(load_labelled_idx(row, images).error().message,
            row.string() +
                ": holds an array of 3; images are count x height x width, none of them 0: give a "
                "file of images");
  EXPECT_EQ(load_labelled_idx(none, row).error().message,
            none.string() +
                ": holds an array of 0 x 2 x 3; images are count x height x width, none of them 0: "
                "give a file of images");
  EXPECT_EQ(
      load_labelled_idx(images, images).error().message,
      images.string() + ": holds an array of 2 x 2 x 3; labels are one row: give a file of labels");
  EXPECT_EQ(load_labelled_idx(images, folder.path() / "x").error().message,
            (folder.path() / "x").string() + ": no such file; check the path");
}

TEST(LabelledImages, FindsTheSplitsOfMnist) {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte.gz", gzipped(idx_file({1, 1, 2}, "ab")));
  folder.write("train-labels-idx1-ubyte", idx_file({1}, digits({3})));
  EXPECT_EQ(images_error(folder.path(), kTest),
            folder.path().string() +
                ": has IDX files, but neither t10k-images-idx3-ubyte nor "
                "t10k-images-idx3-ubyte.gz; download it");
  EXPECT_FALSE(*has_test_images(folder.path()));
  folder.write("t10k-images-idx3-ubyte", idx_file({2, 1, 2}, "cdef"));
  EXPECT_TRUE(*has_test_images(folder.path())) << "one of two files is a damaged split, not none";
  EXPECT_EQ(images_error(folder.path(), kTest),
            folder.path().string() +
                ": has IDX files, but neither t10k-labels-idx1-ubyte nor "
                "t10k-labels-idx1-ubyte.gz; download it");
  folder.write("t10k-labels-idx1-ubyte.gz", gzipped(idx_file({2}, digits({4, 5}))));

  const Result<LabelledImages> train = load_labelled_images(folder.path(), kTrain);
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->labels, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(train->pixels, (std::vector<std::uint8_t>{'a', 'b'}));
  const Result<LabelledImages> test = load_labelled_images(folder.path(), kTest);
  ASSERT_TRUE(test) << test.error().message;
  EXPECT_EQ(test->labels, (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(test->pixels, (std::vector<std::uint8_t>{'c', 'd', 'e', 'f'}));
}

TEST(LabelledImages, ReadsAFolderOfPngsByClass) {
  const TempFolder folder;
  put(folder, "dog/1.png", counting(10));
  put(folder, "cat/b.PNG", counting(30));
  put(folder, "cat/a.png", counting(20));
  folder.write("README.txt", "passed over");
  folder.write("cat/notes.txt", "passed over");
  fs::create_directory(folder.path() / ".hidden");
  folder.write("dog/._1.png", "passed over");
  const Result<LabelledImages> loaded = load_labelled_images(folder.path(), kTrain);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(loaded->labels, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(loaded->pixels,
            (std::vector<std::uint8_t>{20, 21, 22, 23, 30, 31, 32, 33, 10, 11, 12, 13}));
  EXPECT_EQ(images_error(folder.path(), kTest),
            folder.path().string() +
                ": has no test images; expected test/CLASS/*.png beside train/CLASS/*.png");
}

TEST(LabelledImages, AFolderThatCannotBeReadIsNoFolderWithoutATestSplit) {
  const TempFolder folder;
  EXPECT_FALSE(has_test_images(folder.path() / "absent"));
}

TEST(LabelledImages, ColoursBecomePlanes) {
  const TempFolder folder;
  put(folder, "x/1.png", counting(0, 2, 1, 3));
  const Result<LabelledImages> loaded = load_labelled_images(folder.path(), kTrain);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->channels, 3);
  EXPECT_EQ(loaded->pixels, (std::vector<std::uint8_t>{0, 3, 1, 4, 2, 5}));
}

TEST(LabelledImages, ASplitPicksItsSubFolder) {
  const TempFolder folder;
  put(folder, "train/a/1.png", counting(1));
  put(folder, "train/b/1.png", counting(2));
  EXPECT_EQ(images_error(folder.path(), kTest),
            folder.path().string() +
                ": has no test images; expected test/CLASS/*.png beside train/CLASS/*.png");
  EXPECT_FALSE(*has_test_images(folder.path()));
  put(folder, "test/b/1.png", counting(3));
  EXPECT_TRUE(*has_test_images(folder.path()));
  EXPECT_EQ(images_error(folder.path(), kTest),
            folder.path().string() +
                ": class 'a' is in one of train and test only; both need the same classes");
  put(folder, "test/a/1.png", counting(4));
  const Result<LabelledImages> train = load_labelled_images(folder.path(), kTrain);
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->pixels, (std::vector<std::uint8_t>{1, 2, 3, 4, 2, 3, 4, 5}));
  const Result<LabelledImages> test = load_labelled_images(folder.path(), kTest);
  ASSERT_TRUE(test) << test.error().message;
  EXPECT_EQ(test->classes, train->classes);
  EXPECT_EQ(test->pixels, (std::vector<std::uint8_t>{4, 5, 6, 7, 3, 4, 5, 6}));
}

TEST(LabelledImages, AClassMayBeCalledTrain) {
  const TempFolder folder;
  put(folder, "train/1.png", counting(1));
  put(folder, "bus/1.png", counting(2));
  const Result<LabelledImages> loaded = load_labelled_images(folder.path(), kTrain);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->classes, (std::vector<std::string>{"bus", "train"}));
}

TEST(LabelledImages, NamesTheFirstImageThatDiffers) {
  const TempFolder folder;
  put(folder, "a/1.png", counting(1, 2, 3));
  put(folder, "a/2.png", counting(1, 3, 2));
  put(folder, "b/1.png", counting(1, 2, 3, 3));
  const std::string first = (folder.path() / "a/1.png").string();
  EXPECT_EQ(images_error(folder.path()),
            (folder.path() / "a/2.png").string() + ": is 3 x 2 with 1 channels, but " + first +
                " is 2 x 3 with 1; make all images equal in size and channels");
  fs::remove(folder.path() / "a/2.png");
  EXPECT_EQ(images_error(folder.path()),
            (folder.path() / "b/1.png").string() + ": is 2 x 3 with 3 channels, but " + first +
                " is 2 x 3 with 1; make all images equal in size and channels");
}

TEST(LabelledImages, ErrorsNameWhatWasExpected) {
  const TempFolder folder;
  EXPECT_EQ(images_error(folder.path()),
            folder.path().string() +
                ": holds no data set; expected train-images-idx3-ubyte[.gz] and "
                "train-labels-idx1-ubyte[.gz] as MNIST has them, or one sub-folder of .png files "
                "for each class");
  write_png(folder.path() / "1.png", counting(1));
  EXPECT_NE(images_error(folder.path()).find("one sub-folder of .png files"), std::string::npos);
  fs::create_directory(folder.path() / "a");
  EXPECT_EQ(images_error(folder.path()),
            (folder.path() / "a").string() +
                ": this class has no .png files; put its images there, or remove it");
  folder.write("a/1.JPEG", "");
  EXPECT_EQ(images_error(folder.path()), (folder.path() / "a/1.JPEG").string() +
                                             ": pictures are read as PNG only; convert it to PNG");
  fs::remove(folder.path() / "a/1.JPEG");
  folder.write("a/1.png", "\xff\xd8");
  EXPECT_EQ(images_error(folder.path()),
            (folder.path() / "a/1.png").string() + ": is not a PNG file; convert it to PNG");
  EXPECT_EQ(images_error(folder.path() / "none"),
            (folder.path() / "none").string() +
                ": cannot be read as a folder (No such file or directory); check the path");
  EXPECT_EQ(images_error(folder.path() / "1.png"),
            (folder.path() / "1.png").string() +
                ": cannot be read as a folder (Not a directory); check the path");
}

TEST(LabelledImages, PaddingCentresEveryPlane) {
  const LabelledImages images{.width = 2,
                              .height = 1,
                              .channels = 1,
                              .pixels = {1, 2, 3, 4},
                              .labels = {1, 0},
                              .classes = {"a", "b"}};
  const LabelledImages out = padded(images, 5, 3, 9);
  EXPECT_EQ(out.width, 5);
  EXPECT_EQ(out.height, 3);
  EXPECT_EQ(out.labels, images.labels);
  EXPECT_EQ(out.classes, images.classes);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{9, 9, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 9, 9, 9,  //
                                                   9, 9, 9, 9, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(padded(images, 2, 1, 9).pixels, images.pixels);

  const LabelledImages colours{
      .width = 1, .height = 1, .channels = 3, .pixels = {1, 2, 3}, .labels = {0}, .classes = {"a"}};
  EXPECT_EQ(padded(colours, 1, 2, 0).pixels, (std::vector<std::uint8_t>{1, 0, 2, 0, 3, 0}));
}

TEST(LabelledImages, PaddingNeverCuts) {
  const LabelledImages images{.width = 2,
                              .height = 2,
                              .channels = 1,
                              .pixels = {1, 2, 3, 4},
                              .labels = {0},
                              .classes = {"a"}};
  EXPECT_THROW((void)padded(images, 1, 4, 0), std::invalid_argument);
  EXPECT_THROW((void)padded(images, 4, 1, 0), std::invalid_argument);
  EXPECT_THROW((void)padded(images, 4, 16385, 0), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
