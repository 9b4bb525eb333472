#pragma once

#include <stdexcept>

#pragma GCC visibility push(default)
namespace forerun {

/// Thrown by `load_*`: the file's path, then what `Error` says.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace forerun
#pragma GCC visibility pop
