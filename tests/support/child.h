#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace forerun::testing {

/// A process of this test program, or of another; killed on destruction if it still runs.
class Child {
 public:
  /// @param command      program and arguments; looked up in PATH
  /// @param environment  "NAME=VALUE", added to the current environment
  /// @param output       file for standard output and standard error
  Child(std::vector<std::string> command, const std::vector<std::string>& environment,
        const std::filesystem::path& output) {
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) return;
    const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(fd, 1);
    dup2(fd, 2);
    for (const std::string& e : environment) putenv(const_cast<char*>(e.c_str()));
    std::vector<char*> arguments;
    for (std::string& a : command) arguments.push_back(a.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!ended_) {
      kill(SIGKILL);
      wait();
    }
  }

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  /// True once it has ended by itself or was killed.
  bool ended() {
    if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  /// Its exit status, 128 + the signal if one ended it.
  int wait() {
    if (!ended_) waitpid(pid_, &status_, 0);
    ended_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

inline std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

}  // namespace forerun::testing
