#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "forerun/serve/http/http.h"

namespace forerun::serve {

/// An HTTP/1.1 server on one thread, the one that calls `run`.
class HttpServer {
 public:
  /// Takes the address at once, so that one in use is found out before a model is loaded.
  /// @param host  an IP address or "localhost"
  /// @param port  0 = any that is free
  /// @throws UsageError  no such address, or it is in use
  HttpServer(const std::string& host, std::uint16_t port, const HttpLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Where it listens: "http://127.0.0.1:8080".
  std::string url() const;
  /// Whether this machine alone can reach it.
  bool is_local() const;
  /// Answers requests until `stop`.
  /// @param tick    called a few times a second
  /// @param failed  told what a call threw, of the handler, of `tick` or of `post`: the others go
  /// on
  void run(HttpHandler handler, std::function<void()> tick,
           const std::function<void(const char* what)>& failed);
  /// From now on these answer, in place of those that `run` was given. Called on the I/O thread.
  void answer_with(HttpHandler handler, std::function<void()> tick);
  /// Has the thread of `run` call it. From any thread.
  void post(std::function<void()> call);
  /// Ends `run`, once answers that are on their way are out or `seconds` have passed. Called on the
  /// I/O thread.
  void stop(double seconds);
  std::size_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::serve
