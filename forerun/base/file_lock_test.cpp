#include "forerun/base/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "forerun/base/result.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

using testing::TempFolder;

// flock belongs to an open file: two of one process behave like two processes.
TEST(FileLock, IsOfOneAloneOrSharedByMany) {
  const TempFolder folder;
  const auto path = folder.write("file", "");
  const int a = open(path.c_str(), O_RDWR), b = open(path.c_str(), O_RDONLY);
  EXPECT_EQ(lock_alone(a), 0);
  EXPECT_EQ(lock_alone(a), 0) << "its own";
  EXPECT_EQ(lock_alone(b), EWOULDBLOCK);
  EXPECT_EQ(lock_shared(a), 0);
  EXPECT_EQ(lock_alone(b), EWOULDBLOCK);
  EXPECT_EQ(lock_shared(b), 0);
  EXPECT_EQ(lock_alone(a), EWOULDBLOCK);
  close(b);
  EXPECT_EQ(lock_alone(a), 0);
  close(a);
  EXPECT_EQ(lock_alone(-1), EBADF);
}

TEST(FolderLock, GoesWithItsHolderAndLeavesNothing) {
  const TempFolder folder;
  std::optional<FolderLock> first(std::in_place, folder.path(), "is busy");
  try {
    const FolderLock second(folder.path(), "is busy");
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_EQ(std::string(e.what()), folder.path().string() + ": is busy");
  }
  first.reset();
  EXPECT_NO_THROW(FolderLock(folder.path(), "is busy"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(FolderLock(folder.path() / "missing", ""), FormatError);
  EXPECT_THROW(FolderLock(folder.write("file", ""), ""), FormatError);
}

}  // namespace
}  // namespace forerun
