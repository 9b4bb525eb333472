#include "forerun/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const testing::TempFolder folder;
  const MappedFile file = load_file(folder.write("a", std::string_view("ab\0c", 4)));
  EXPECT_EQ(file.text(), std::string_view("ab\0c", 4));
  EXPECT_EQ(file.bytes().size(), 4u);
}

TEST(MappedFile, MovesKeepTheMapping) {
  const testing::TempFolder folder;
  MappedFile a = load_file(folder.write("a", "first"));
  MappedFile b = std::move(a);
  EXPECT_EQ(b.text(), "first");
  b = load_file(folder.write("b", "second"));
  EXPECT_EQ(b.text(), "second");
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const testing::TempFolder folder;
  const auto path = folder.write("a", "still here");
  const MappedFile file = load_file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(file.text(), "still here");
}

TEST(MappedFile, ErrorsNameWhyAFileCannotBeRead) {
  const testing::TempFolder folder;
  EXPECT_EQ(MappedFile::open(folder.path() / "none").error().message,
            "no such file; check the path");
  EXPECT_EQ(MappedFile::open(folder.path()).error().message, "is a folder; name a file in it");
  EXPECT_EQ(MappedFile::open(folder.write("empty", "")).error().message,
            "is empty; download or write it again");
  EXPECT_EQ(MappedFile::open("/dev/null").error().message,
            "is a pipe or device; copy it to a regular file first");
}

TEST(MappedFile, DoesNotWaitForTheWriterOfAPipe) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::open(path));
}

TEST(MappedFile, ErrorsNameDeniedPermission) {
  const testing::TempFolder folder;
  const auto path = folder.write("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const uid_t user = geteuid();
  if (user == 0) {  // the administrator may read everything
    ASSERT_EQ(seteuid(65534), 0);
  }
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_EQ(seteuid(user), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "permission denied; make the file and its folders readable");
}

TEST(MappedFile, LoadingNamesThePath) {
  try {
    (void)load_file("/no/such/model.gguf");
    FAIL() << "did not throw";
  } catch (const FormatError& e) {
    EXPECT_STREQ(e.what(), "/no/such/model.gguf: no such file; check the path");
  }
}

}  // namespace
}  // namespace forerun
