#pragma once

#include <stdexcept>

/// Exceptions of training; part of the public API.
#pragma GCC visibility push(default)
namespace forerun {

/// Training cannot continue; the message gives the reason and a remedy.
class TrainError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown on the ranks other than the one that reports the failure: stop, and print nothing.
class StoppedByOtherRank : public TrainError {
 public:
  using TrainError::TrainError;
};

}  // namespace forerun
#pragma GCC visibility pop
