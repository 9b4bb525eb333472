#pragma once

#include <functional>
#include <stdexcept>

namespace forerun {

/// Asked between pieces of long work; false: leave it. Empty: nobody wants it to end early.
using GoOn = std::function<bool()>;

/// Work was left that has no result in part, since its GoOn was false.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// @throws Interrupted
inline void expect_to_go_on(const GoOn& go_on) {
  if (go_on && !go_on()) throw Interrupted();
}

}  // namespace forerun
