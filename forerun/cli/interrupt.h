#pragma once

namespace forerun::cli {

/// Ctrl-C (SIGINT, SIGTERM, SIGHUP, SIGUSR1) asks running work to end cleanly; a further one ends
/// the process at once: the second, or the third where what is being written down would be lost.
inline constexpr int kEndsAtSecond = 2, kEndsAtThird = 3;
void catch_interrupts(int ends_at = kEndsAtSecond);
bool interrupted() noexcept;
/// Work may go on after Ctrl-C; the other signals stand.
void clear_interrupt() noexcept;

/// While it lives the first Ctrl-C ends the process at once, unless a third one was asked for: of
/// work that nothing is lost of, as reading a model.
class EndsAtFirst {
 public:
  EndsAtFirst() noexcept;
  ~EndsAtFirst();
  EndsAtFirst(const EndsAtFirst&) = delete;
  EndsAtFirst& operator=(const EndsAtFirst&) = delete;

 private:
  int before_;
};

}  // namespace forerun::cli
