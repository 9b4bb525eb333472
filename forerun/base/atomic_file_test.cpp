#include "forerun/base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <vector>

#include "forerun/base/write_all.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

auto entries(const testing::TempFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

std::string error_of(const std::filesystem::path& path) {
  try {
    AtomicFile file(path);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "did not throw";
}

TEST(AtomicFile, AppearsWholeOnCommit) {
  const testing::TempFolder folder;
  const auto path = folder.write("f", "old");
  AtomicFile file(path);
  file.append(bytes("hello "));
  file.append(bytes("world"));
  file.overwrite(0, bytes("J"));
  EXPECT_EQ(testing::read_file(path), "old");
  file.commit();
  EXPECT_EQ(testing::read_file(path), "Jello world");
  EXPECT_EQ(entries(folder), 1);
  EXPECT_THROW(file.append(bytes("x")), std::logic_error);
  EXPECT_THROW(file.commit(), std::logic_error);
}

TEST(AtomicFile, OnesThatAProcessEndsInAreRemoved) {
  const testing::TempFolder folder;
  const auto done = folder.write("done", "");
  AtomicFile(done).commit("whole");
  { AtomicFile gone(folder.path() / "gone"); }
  AtomicFile a(folder.path() / "a"), b(folder.path() / "b");
  a.append(bytes("half"));
  EXPECT_EQ(entries(folder), 3);
  remove_unfinished_files();
  EXPECT_EQ(entries(folder), 1);
  EXPECT_EQ(testing::read_file(done), "whole");
}

TEST(AtomicFile, LeavesNoTraceWithoutCommit) {
  const testing::TempFolder folder;
  const auto path = folder.write("f", "old");
  { AtomicFile(path).append(bytes("new")); }
  EXPECT_EQ(testing::read_file(path), "old");
  EXPECT_EQ(entries(folder), 1);
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMix) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "f";
  AtomicFile a(path), b(path);
  a.append(bytes("aaaa"));
  b.append(bytes("bb"));
  a.commit();
  b.commit();
  EXPECT_EQ(testing::read_file(path), "bb");
  EXPECT_EQ(entries(folder), 1);
}

TEST(AtomicFile, NeverReplacesFoldersOrDevices) {
  const testing::TempFolder folder;
  EXPECT_EQ(error_of(folder.path()),
            folder.path().string() + ": is a folder; name a file to write");
  EXPECT_EQ(error_of("/dev/null"), "/dev/null: is not a regular file; name a file to write");
}

TEST(AtomicFile, ErrorsNameAMissingFolder) {
  const testing::TempFolder folder;
  const auto path = folder.path() / "none" / "f";
  EXPECT_EQ(error_of(path), path.string() +
                                ": cannot be created: No such file or directory; create "
                                "the folder first");
}

TEST(AtomicFile, AFullDiskIsReportedAndLeavesNoTrace) {
  // A limit on file sizes simulates the full disk: the write fails half-way in the same place.
  const testing::TempFolder folder;
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 1000, .rlim_max = before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message = "did not throw";
  try {
    AtomicFile file(folder.path() / "f");
    const std::vector<std::byte> chunk(300);
    for (int i = 0; i < 5; ++i) file.append(chunk);
  } catch (const FormatError& e) {
    message = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message,
            (folder.path() / "f").string() +
                ": writing failed after 900 bytes: File too large; raise the limit on file "
                "sizes (ulimit -f), or use another file system");
  EXPECT_EQ(entries(folder), 0);
}

TEST(WriteAll, GivesTheReasonOfTheFailure) {
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(write_all(fd, 0, bytes("x")), ENOSPC);
  close(fd);
  EXPECT_EQ(write_all(-1, 0, bytes("x")), EBADF);
  EXPECT_EQ(write_all(-1, 0, {}), 0);
}

}  // namespace
}  // namespace forerun
