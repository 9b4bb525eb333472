#include "forerun/serve/http/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <vector>

#include "forerun/common.h"
#include "forerun/serve/http/connection.h"

namespace forerun::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kTick = std::chrono::milliseconds(200);
constexpr rlim_t kOtherFiles = 64;

// As many descriptors as the limits allow; connections beyond them are turned away.
std::size_t descriptors(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur =
      std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, wanted + kOtherFiles));
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t free = limit.rlim_cur > 2 * kOtherFiles ? limit.rlim_cur - kOtherFiles : kOtherFiles;
  return std::min<std::size_t>(wanted, static_cast<std::size_t>(free));
}

}  // namespace

struct HttpServer::Impl {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer timer{io};
  std::shared_ptr<ConnectionHub> hub = std::make_shared<ConnectionHub>();
  std::function<void()> tick;
  Clock::time_point stop_at = Clock::time_point::max();

  void accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // no descriptors, say: those that are idle too long free some
        evict();
        timer_accept.expires_after(kTick);
        timer_accept.async_wait([this](const error_code& e) {
          if (!e) accept();
        });
        return;
      }
      welcome(std::move(socket));
      accept();
    });
  }

  void welcome(tcp::socket socket) {
    const bool full = hub->open.size() >= hub->limits.connections && !evict();
    const auto connection = std::make_shared<Connection>(std::move(socket), hub);
    hub->open.insert(connection);
    full ? connection->turn_away() : connection->start();
  }

  // Closes the connection that is idle for longest. False: none is idle.
  bool evict() {
    std::shared_ptr<Connection> oldest;
    for (const auto& c : hub->open) {
      if (c->idle() && (!oldest || c->deadline() < oldest->deadline())) oldest = c;
    }
    if (oldest) oldest->close();
    return oldest != nullptr;
  }

  void wait_for_tick() {
    timer.expires_after(kTick);
    timer.async_wait([this](const error_code& error) {
      if (error) return;
      wait_for_tick();
      const auto now = Clock::now();
      const std::vector<std::shared_ptr<Connection>> all(hub->open.begin(), hub->open.end());
      for (const auto& c : all) c->tick(now);
      if (stop_at != Clock::time_point::max()) {
        const bool quiet =
            std::all_of(all.begin(), all.end(), [](const auto& c) { return c->idle(); });
        if (quiet || now > stop_at) return io.stop();
      }
      tick();
    });
  }

  asio::steady_timer timer_accept{io};
};

HttpServer::HttpServer(const std::string& host, std::uint16_t port, const HttpLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    throw UsageError(fmt::format(
        "--host {}: give an IP address of this machine, such as 127.0.0.1 or 0.0.0.0", host));
  }
  const tcp::endpoint endpoint(address, port);
  tcp::acceptor& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error) {
    throw UsageError(fmt::format("cannot listen on {} port {}: {}; choose another with --port",
                                 host, port, error.message()));
  }
  impl_->hub->limits = limits;
  impl_->hub->limits.connections = descriptors(limits.connections);
}

HttpServer::~HttpServer() = default;

std::string HttpServer::url() const {
  error_code ignored;
  const tcp::endpoint at = impl_->acceptor.local_endpoint(ignored);
  const std::string address = at.address().to_string();
  return at.address().is_v6() ? fmt::format("http://[{}]:{}", address, at.port())
                              : fmt::format("http://{}:{}", address, at.port());
}

bool HttpServer::is_local() const {
  error_code ignored;
  const asio::ip::address at = impl_->acceptor.local_endpoint(ignored).address();
  if (!at.is_v6() || !at.to_v6().is_v4_mapped()) return at.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, at.to_v6()).is_loopback();
}

void HttpServer::run(HttpHandler handler, std::function<void()> tick,
                     const std::function<void(const char* what)>& failed) {
  answer_with(std::move(handler), std::move(tick));
  impl_->accept();
  impl_->wait_for_tick();
  while (!impl_->io.stopped()) {
    try {
      impl_->io.run();
    } catch (const std::exception& e) {
      failed(e.what());
    }
  }
  // Their handlers may belong to something that ends before this server.
  const std::vector<std::shared_ptr<Connection>> all(impl_->hub->open.begin(),
                                                     impl_->hub->open.end());
  for (const auto& c : all) c->abandon();
  impl_->hub->handler = {};
}

void HttpServer::answer_with(HttpHandler handler, std::function<void()> tick) {
  impl_->hub->handler = std::move(handler);
  impl_->tick = std::move(tick);
}

void HttpServer::post(std::function<void()> call) { asio::post(impl_->io, std::move(call)); }

void HttpServer::stop(double seconds) {
  impl_->stop_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
}

std::size_t HttpServer::connections() const { return impl_->hub->open.size(); }

}  // namespace forerun::serve
