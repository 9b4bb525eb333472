#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <utility>

#include "lock.h"

namespace forerun::python {

namespace nb = nanobind;

/// Signals and exceptions of Python code while the library works without the interpreter's lock.
/// The work is told to stop; `rethrow` then raises what happened.
class Interrupts {
 public:
  /// False ends the work: Ctrl-C, or a callback that raised. Signals are looked for 20 times a
  /// second: the lock may be another thread's for some milliseconds.
  bool go_on() {
    if (error_) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return true;
    next_ = now + std::chrono::milliseconds(50);
    run([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
    return !error_;
  }

  /// Runs code that uses Python objects; not after an exception.
  template <class Callback>
  void run(Callback&& callback) {
    if (error_) return;
    const Locked lock;
    try {
      callback();
    } catch (const abi::__forced_unwind&) {  // the interpreter's exit ends a daemon thread
      sleep_until_exit();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  /// @param work  runs without the interpreter's lock
  /// @throws what Python code raised meanwhile, else what `work` throws
  template <class Work>
  auto during(Work&& work) {
    auto result = [&] {
      const Unlocked unlocked;
      return work();
    }();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return result;
  }

 private:
  std::exception_ptr error_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace forerun::python
