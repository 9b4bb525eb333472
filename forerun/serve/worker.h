#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace forerun::serve {

/// Threads for work that takes too long for the I/O thread: parsing and encoding of requests.
class Workers {
 public:
  explicit Workers(std::size_t threads);
  /// Ends after the piece of work that is under way; what waits is dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// @param work  must not throw
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace forerun::serve
