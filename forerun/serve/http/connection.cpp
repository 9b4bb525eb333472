#include "forerun/serve/http/connection.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>

namespace forerun::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kFirstRead = 512;  // what an idle connection holds
constexpr std::size_t kMostDrained = std::size_t{16} << 20;
constexpr double kLinger = 5.0;  // seconds

std::string string_of(boost::string_view s) { return {s.data(), s.size()}; }

// The client has gone, in the middle of a request or before it.
bool is_end(const error_code& error) {
  return error == http::error::end_of_stream || error == http::error::partial_message ||
         (error && error.category() == boost::system::system_category());
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<ConnectionHub> hub)
    : socket_(std::move(socket)),
      hub_(std::move(hub)),
      buffer_(hub_->limits.header + std::size_t{64} * 1024),
      last_write_(Clock::now()) {
  error_code ignored;
  const auto from = socket_.remote_endpoint(ignored);
  if (!ignored) request_.remote = from.address().to_string();
  // A round's text goes out at once.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::start() { next_request(); }

void Connection::turn_away() {
  keep_alive_ = false;
  refuse(503, "the server has as many connections as it takes: try again later");
}

void Connection::within(double seconds) {
  deadline_ = Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Waits for the first bytes of a request, unless they came with the last one.
void Connection::next_request() {
  state_ = State::kIdle;
  parser_.reset();
  request_.share.reset();
  request_.body = {};
  within(hub_->limits.idle);
  if (buffer_.size() == 0) return read_more();
  if (!reading_) return read_header();
  error_code ignored;
  socket_.cancel(ignored);  // `arrived` goes on
}

// While a request is answered this tells that the client has gone.
void Connection::read_more() {
  if (reading_) return;
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(kFirstRead),
                          [self = shared_from_this()](const error_code& error, std::size_t n) {
                            self->arrived(error, n);
                          });
}

void Connection::arrived(const error_code& error, std::size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::operation_aborted && state_ == State::kIdle) return next_request();
  if (error && state_ == State::kWriting) {  // the answer still goes out
    keep_alive_ = false;
    return;
  }
  if (error) return close();
  if (state_ == State::kLingering) return drain();
  buffer_.commit(bytes);
  if (state_ == State::kIdle) return read_header();
  // The next request, sent early, waits until this one is answered. Reading goes on, since the end
  // of what is sent is all that tells that the client has gone.
  if (buffer_.size() > hub_->limits.header) return close();
  read_more();
}

void Connection::read_header() {
  fields_.clear();  // those of the request before
  state_ = State::kHeader;
  within(hub_->limits.read_header);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(hub_->limits.header));
  parser_->body_limit(hub_->limits.body);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code& error, std::size_t) {
                            self->header_arrived(error);
                          });
}

void Connection::fill_head(const http::request_header<>& head) {
  const std::string target = string_of(head.target());
  const std::size_t mark = target.find('?');
  request_.id = ++hub_->requests;
  request_.method = string_of(head.method_string());
  request_.path = target.substr(0, mark);
  request_.query = mark == std::string::npos ? std::string() : target.substr(mark + 1);
  request_.authorization = string_of(head[http::field::authorization]);
  request_.host = string_of(head[http::field::host]);
  request_.origin = string_of(head[http::field::origin]);
  fields_ = hub_->handler.fields ? hub_->handler.fields(request_) : std::string();
}

void Connection::header_arrived(const error_code& error) {
  if (state_ != State::kHeader) return;  // it took too long
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the request's head has more than {} bytes: send fewer or "
                                   "shorter header fields",
                                   hub_->limits.header));
  }
  const std::string too_long = fmt::format(
      "the request's body has more than {} bytes, the server's limit", hub_->limits.body);
  if (error == http::error::body_limit) return refuse(413, too_long);
  if (is_end(error)) return close();
  if (error) return refuse(400, "this is no HTTP request: " + error.message());
  const auto& head = parser_->get();
  keep_alive_ = head.keep_alive();
  old_ = head.version() < 11;
  fill_head(head);
  const bool has_body = !parser_->is_done();
  if (auto refusal = hub_->handler.check(request_)) {
    if (has_body) keep_alive_ = false;
    return queue(*refusal);
  }
  if (!has_body) {
    state_ = State::kBody;
    return body_arrived({});
  }
  const auto length = parser_->content_length();
  if (length && *length > hub_->limits.body) return refuse(413, too_long);
  const std::size_t most = length ? static_cast<std::size_t>(*length) : hub_->limits.body;
  if (hub_->bodies + most > hub_->limits.bodies) {
    return refuse(503, "too many large requests arrive at the moment: try again later");
  }
  hub_->bodies += most;
  request_.share = BodyShare(nullptr, [hub = hub_, most](void*) { hub->bodies -= most; });
  const bool asks = boost::beast::iequals(head[http::field::expect], "100-continue");
  if (asks && !old_) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  read_body();
}

void Connection::read_body() {
  state_ = State::kBody;
  within(hub_->limits.read_body);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](const error_code& error, std::size_t) {
                     self->body_arrived(error);
                   });
}

void Connection::body_arrived(const error_code& error) {
  if (state_ != State::kBody) return;  // it took too long
  if (error == http::error::body_limit) {
    return refuse(413, fmt::format("the request's body has more than {} bytes, the server's limit",
                                   hub_->limits.body));
  }
  if (is_end(error)) return close();
  if (error) return refuse(400, "the request's body cannot be read: " + error.message());
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::kAnswering;
  deadline_ = Clock::time_point::max();
  gone_ = {};
  read_more();
  HttpRequest request = std::move(request_);
  request_.id = request.id;
  request_.remote = request.remote;
  hub_->handler.handle(std::move(request), Exchange(shared_from_this(), request_.id));
}

// For requests that the handler does not see; what the client still sends cannot be told apart.
void Connection::refuse(unsigned status, const std::string& message) {
  keep_alive_ = false;
  queue(hub_->handler.refuse(status, message));
}

bool Connection::answers(std::uint64_t request) const noexcept {
  return request == request_.id && (state_ == State::kAnswering || state_ == State::kStreaming);
}

void Connection::send(std::uint64_t request, const HttpResponse& response) {
  if (answers(request) && state_ == State::kAnswering) queue(response);
}

void Connection::queue(const HttpResponse& response) {
  state_ = State::kWriting;
  gone_ = {};
  out_ += fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
                      status_line(response.status), response.content_type, response.body.size());
  for (const auto& [name, value] : response.headers) out_ += fmt::format("{}: {}\r\n", name, value);
  out_ += fields_;
  out_ += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (request_.method != "HEAD") out_ += response.body;
  flush();
}

void Connection::begin_stream(std::uint64_t request) {
  if (!answers(request) || state_ != State::kAnswering) return;
  state_ = State::kStreaming;
  if (old_) keep_alive_ = false;
  out_ += fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
      "X-Accel-Buffering: no\r\n{}{}Connection: {}\r\n\r\n",
      fields_, old_ ? "" : "Transfer-Encoding: chunked\r\n", keep_alive_ ? "keep-alive" : "close");
  flush();
}

void Connection::write(std::uint64_t request, std::string_view events) {
  if (!answers(request) || state_ != State::kStreaming || events.empty()) return;
  // One call may bring more than the limit to a reader that takes all of it at once.
  const std::chrono::duration<double> patience(hub_->limits.patience);
  const std::size_t waits = out_.size() + events.size();
  if (sending_ && (waits > hub_->limits.burst ||
                   (waits > hub_->limits.backlog && Clock::now() - last_write_ > patience))) {
    return close();
  }
  if (old_) {
    out_ += events;
  } else {
    out_ += fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  }
  flush();
}

void Connection::end_stream(std::uint64_t request) {
  if (!answers(request) || state_ != State::kStreaming) return;
  state_ = State::kWriting;
  gone_ = {};
  if (!old_) out_ += "0\r\n\r\n";
  flush();
}

void Connection::on_gone(std::uint64_t request, std::function<void()> gone) {
  if (answers(request)) {
    gone_ = std::move(gone);
  } else if (request != request_.id || state_ == State::kClosed) {
    gone();
  }
}

void Connection::flush() {
  if (sending_) return;
  if (out_.empty()) {
    if (state_ == State::kWriting) finished();
    return;
  }
  sending_ = true;
  writing_ = std::move(out_);
  out_ = {};
  last_write_ = Clock::now();
  // A body that is being read has a deadline of its own.
  if (state_ != State::kBody) {
    within(hub_->limits.write + static_cast<double>(writing_.size()) / (16.0 * 1024.0));
  }
  asio::async_write(
      socket_, asio::buffer(writing_),
      [self = shared_from_this()](const error_code& error, std::size_t) { self->written(error); });
}

void Connection::written(const error_code& error) {
  sending_ = false;
  writing_ = {};
  if (state_ == State::kClosed) return;
  if (error) return close();
  if (state_ == State::kAnswering || state_ == State::kStreaming) {
    deadline_ = Clock::time_point::max();
  }
  flush();
}

void Connection::finished() {
  if (!keep_alive_) return linger();
  // The read that watched the client is still under way, or has brought the next request.
  next_request();
}

// Closing at once could take the answer from a client that is still sending.
void Connection::linger() {
  state_ = State::kLingering;
  within(kLinger);
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (!reading_) drain();
}

void Connection::drain() {
  buffer_.clear();
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(std::size_t{16} * 1024),
                          [self = shared_from_this()](const error_code& error, std::size_t n) {
                            self->reading_ = false;
                            self->drained_ += n;
                            if (self->state_ == State::kClosed) return;
                            if (error || self->drained_ > kMostDrained) return self->close();
                            self->drain();
                          });
}

void Connection::tick(Clock::time_point now) {
  if (state_ == State::kStreaming && !sending_ &&
      now - last_write_ > std::chrono::duration<double>(hub_->limits.comment)) {
    write(request_.id, ": still at it\n\n");
  }
  if (now < deadline_) return;
  if ((state_ == State::kHeader || state_ == State::kBody) && !sending_) {
    error_code ignored;
    socket_.cancel(ignored);  // the read's handler will see another state
    return refuse(408, "the request did not arrive in time");
  }
  close();
}

void Connection::abandon() {
  gone_ = {};
  close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  request_.share.reset();
  const std::shared_ptr<Connection> self = shared_from_this();
  hub_->open.erase(self);
  if (gone_) std::exchange(gone_, {})();
}

}  // namespace forerun::serve
