#pragma once

#include <Python.h>
#include <unistd.h>

namespace forerun::python {

/// A daemon thread that the interpreter's exit has ended sleeps until the process is gone.
[[noreturn]] inline void sleep_until_exit() {
  for (;;) pause();
}

/// Takes the interpreter's lock. CPython before 3.14 ends a daemon thread that asks for it while
/// the interpreter exits, by pthread_exit. Its unwinding may not pass destructors, which are
/// noexcept: such a thread sleeps instead, as from 3.14 on.
template <class Take>
auto take_lock(Take take) noexcept {
  try {
    return take();
  } catch (...) {
    sleep_until_exit();
  }
}

/// Without the interpreter's lock while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    take_lock([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// With the interpreter's lock while it lives, in any thread.
class Locked {
 public:
  Locked() : state_(take_lock([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace forerun::python
