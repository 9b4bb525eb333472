#pragma once

namespace forerun::cli {

/// Ctrl-C (SIGINT, SIGTERM, SIGUSR1) asks running work to end cleanly; a second one ends the
/// process at once.
void catch_interrupts();
bool interrupted() noexcept;
void clear_interrupt() noexcept;

}  // namespace forerun::cli
