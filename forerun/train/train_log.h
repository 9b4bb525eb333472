#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace forerun {

/// The log of a run, a JSON object a line. Locked by one process at a time.
class TrainLog {
 public:
  /// Opens or creates the file and keeps its content.
  /// @throws FormatError  cannot be written, or another process trains into this folder
  explicit TrainLog(std::filesystem::path path);
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;
  ~TrainLog();

  /// Truncates to the first `bytes`, and to whole lines.
  void keep_first(std::uint64_t bytes);
  /// Adds a line; numbers that are not finite become null.
  void append(const nlohmann::ordered_json& line);
  /// Waits until all lines are on the disk.
  void sync();
  std::uint64_t size() const noexcept { return size_; }  ///< bytes
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(std::string_view action, int code) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace forerun
