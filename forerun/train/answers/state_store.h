#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace forerun {

/// A target's states of many documents, kept in a file from one epoch to the next: reading them
/// costs less than another pass of the target. Features are kept as int8 with a scale for 32 of
/// them, as exact as in the int8 engine; the last states as bf16. Several processes may share one
/// file if they have the same key.
class StateStore {
 public:
  struct Shape {
    std::int64_t features;  ///< of a row
    std::int64_t last;
  };

  /// Throws what the constructor would of a path that cannot be a store. Changes nothing: a store
  /// of another key stays as it is, and no file is left where there was none.
  static void expect_usable(const std::filesystem::path& path);

  /// Opens or creates the file.
  /// @param rows  of each document
  /// @param key   of target, layers and documents: a file with another key is reset, unless another
  /// process uses it
  /// @throws FormatError  it cannot be opened or written, has another content, or is used by
  /// another process with another key
  StateStore(const std::filesystem::path& path, Shape shape, std::span<const std::int64_t> rows,
             const std::string& key);
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;
  ~StateStore();

  /// Keeps a document's states, and replaces them by what `get` gives back.
  /// @param features  [rows of the document, features] float32; `last` likewise
  /// @return  false if the disk is full: the document is not kept
  bool put(std::size_t document, at::Tensor features, at::Tensor last);
  /// Into such tensors.
  /// @return  false, and nothing is read, if the document is not there, or is not what was put, as
  /// after a crash of the machine
  bool get(std::size_t document, at::Tensor features, at::Tensor last) const;

 private:
  struct Kept;

  Kept room_for(std::size_t document) const;
  std::int64_t place_of_hash(std::size_t document) const noexcept;
  void claim(const std::string& header);
  void begin(const std::string& header);
  std::int64_t row_bytes() const noexcept;
  std::int64_t groups() const noexcept { return (shape_.features + 31) / 32; }

  std::filesystem::path path_;
  Shape shape_;
  std::vector<std::int64_t> rows_, begin_;  // of each document: rows, place in the file
  int fd_ = -1;
};

}  // namespace forerun
