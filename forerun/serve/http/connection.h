#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "forerun/serve/http/http.h"

namespace forerun::serve {

using Clock = std::chrono::steady_clock;

/// What connections share. Belongs to the I/O thread.
struct ConnectionHub {
  HttpLimits limits;
  HttpHandler handler;
  std::unordered_set<std::shared_ptr<Connection>> open;
  std::atomic<std::size_t> bodies = 0;  ///< bytes promised to bodies; given back on any thread
  std::uint64_t requests = 0;
};

/// One client. Reads a request, has it answered, reads the next. All of it runs on the I/O thread;
/// nothing blocks, and every state but the wait for an answer has a deadline.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ConnectionHub> hub);

  void start();
  /// Says no to a client for whom there is no room.
  void turn_away();
  /// Ends what is overdue, and keeps silent streams alive.
  void tick(Clock::time_point now);
  bool idle() const noexcept { return state_ == State::kIdle; }
  Clock::time_point deadline() const noexcept { return deadline_; }
  void close();
  /// Closes it, and tells nobody.
  void abandon();

  // Of an Exchange; ignored unless `request` is the one that is being answered.
  void send(std::uint64_t request, const HttpResponse& response);
  void begin_stream(std::uint64_t request);
  void write(std::uint64_t request, std::string_view events);
  void end_stream(std::uint64_t request);
  void on_gone(std::uint64_t request, std::function<void()> gone);

 private:
  enum class State : std::uint8_t {
    kIdle,       // waits for a request
    kHeader,     // reads its head
    kBody,       // reads its body
    kAnswering,  // the handler has it
    kStreaming,  // the handler writes
    kWriting,    // the last bytes of the answer go out
    kLingering,  // the answer is out; what the client still sends is read and dropped
    kClosed
  };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void next_request();
  void read_more();
  void arrived(const boost::system::error_code& error, std::size_t bytes);
  void read_header();
  void header_arrived(const boost::system::error_code& error);
  void read_body();
  void body_arrived(const boost::system::error_code& error);
  void refuse(unsigned status, const std::string& message);
  void queue(const HttpResponse& response);
  void flush();
  void written(const boost::system::error_code& error);
  void finished();
  void linger();
  void drain();
  bool answers(std::uint64_t request) const noexcept;
  void within(double seconds);
  void fill_head(const boost::beast::http::request_header<>& head);

  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<ConnectionHub> hub_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::string fields_;  // that every response to it has
  std::function<void()> gone_;
  std::string out_, writing_;
  State state_ = State::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point last_write_;
  std::size_t drained_ = 0;
  bool reading_ = false, sending_ = false;  // an operation is under way
  bool keep_alive_ = true, old_ = false;    // old: HTTP/1.0
};

}  // namespace forerun::serve
