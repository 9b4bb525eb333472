#include "forerun/serve/http/http.h"

#include "forerun/serve/http/connection.h"

namespace forerun::serve {

Exchange::Exchange(std::shared_ptr<Connection> connection, std::uint64_t request)
    : connection_(std::move(connection)), request_(request) {}

void Exchange::send(const HttpResponse& response) const { connection_->send(request_, response); }
void Exchange::begin() const { connection_->begin_stream(request_); }
void Exchange::write(std::string_view events) const { connection_->write(request_, events); }
void Exchange::end() const { connection_->end_stream(request_); }
void Exchange::on_gone(std::function<void()> gone) const {
  connection_->on_gone(request_, std::move(gone));
}

std::string status_line(unsigned status) {
  const auto reason = [&]() -> std::string_view {
    switch (status) {
      case 200:
        return "OK";
      case 400:
        return "Bad Request";
      case 401:
        return "Unauthorized";
      case 403:
        return "Forbidden";
      case 404:
        return "Not Found";
      case 405:
        return "Method Not Allowed";
      case 408:
        return "Request Timeout";
      case 413:
        return "Content Too Large";
      case 429:
        return "Too Many Requests";
      case 431:
        return "Request Header Fields Too Large";
      case 500:
        return "Internal Server Error";
      case 503:
        return "Service Unavailable";
      default:
        return "Status";
    }
  }();
  return std::to_string(status) + " " + std::string(reason);
}

}  // namespace forerun::serve
