#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::serve {

/// What one connection may ask of the server, and for how long. Sizes in bytes, times in seconds.
struct HttpLimits {
  std::size_t header = std::size_t{16} << 10;
  std::size_t body = std::size_t{8} << 20;
  std::size_t bodies = std::size_t{256} << 20;   ///< all bodies that are being read or parsed
  std::size_t backlog = std::size_t{512} << 10;  ///< of a stream beside a write that lasts longer
                                                 ///< than `patience`,
  std::size_t burst = std::size_t{8} << 20;      ///< and however short it has lasted
  std::size_t connections = 12'000;
  double idle = 75.0;         ///< between requests
  double read_header = 10.0;  ///< from the first byte of a request to its last header
  double read_body = 60.0;
  double write = 30.0;  ///< a second more for every 16 KiB
  double patience = 2.0;
  double comment = 15.0;  ///< a stream that was silent so long sends a comment
};

/// A part of HttpLimits::bodies; given back when the last copy goes.
using BodyShare = std::shared_ptr<void>;

struct HttpRequest {
  std::uint64_t id = 0;  ///< counted by the server
  std::string method, path, query, remote;
  std::string authorization, host, origin;
  std::string body;
  BodyShare share;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body;
};

class Connection;

/// The answer to one request: one whole response, or a stream. Belongs to the I/O thread. After the
/// client has gone all calls do nothing.
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, std::uint64_t request);

  void send(const HttpResponse& response) const;
  /// Begins a stream of server-sent events.
  void begin() const;
  void write(std::string_view events) const;
  void end() const;
  /// Called once if the client goes away, or is too slow, before the answer has been handed over.
  void on_gone(std::function<void()> gone) const;

 private:
  std::shared_ptr<Connection> connection_;
  std::uint64_t request_;
};

struct HttpHandler {
  /// Looks at the head of a request; a response refuses it before its body is read.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check;
  std::function<void(HttpRequest, Exchange)> handle;
  /// Fields for the head of every response to a request, each with its line break. May be empty.
  std::function<std::string(const HttpRequest&)> fields;
  /// The response to a request that never reaches `handle`: 400, 408, 413, 431, 503.
  std::function<HttpResponse(unsigned status, const std::string& message)> refuse;
};

/// @returns "200 OK"
std::string status_line(unsigned status);

}  // namespace forerun::serve
