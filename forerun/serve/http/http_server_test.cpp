// The HTTP layer alone, against clients that break off, send nonsense, or several requests at once.
#include "forerun/serve/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forerun/serve/http/host_name.h"

namespace forerun::serve {
namespace {

using Clock = std::chrono::steady_clock;

// A blocking client socket.
class Client {
 public:
  explicit Client(int port, int wait_ms = 5000) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval wait{.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = ::send(socket_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      data.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void end() { ::shutdown(socket_, SHUT_WR); }
  /// What comes until the server closes, or `most` bytes.
  std::string receive(std::size_t most = std::size_t{1} << 24) {
    std::string out;
    char buffer[4096];
    while (out.size() < most) {
      const ssize_t n = ::recv(socket_, buffer, std::min(sizeof buffer, most - out.size()), 0);
      if (n <= 0) break;
      out.append(buffer, static_cast<std::size_t>(n));
    }
    return out;
  }

 private:
  int socket_;
  bool connected_;
};

// Echoes bodies, streams from another thread, or leaves a request without an answer.
class TestServer {
 public:
  explicit TestServer(const HttpLimits& limits = {}) : server_("127.0.0.1", 0, limits) {
    const std::string url = server_.url();
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
    thread_ = std::thread([this] {
      server_.run(
          {.check = [](const HttpRequest& r) { return check(r); },
           .handle = [this](HttpRequest r, const Exchange& e) { handle(std::move(r), e); },
           .refuse =
               [](unsigned status, const std::string& message) {
                 return HttpResponse{.status = status, .body = message};
               }},
          [this] { connections = server_.connections(); },
          [this](const char* what) { failed += std::string(what) == "lost" ? 1 : 0; });
    });
  }
  ~TestServer() {
    server_.post([this] { server_.stop(0.0); });
    thread_.join();
    for (std::thread& t : streams_) t.join();
  }

  int port() const { return port_; }
  std::string ask(const std::string& data) {
    Client client(port_);
    client.send(data);
    return client.receive();
  }

  std::atomic<std::size_t> connections = 0;
  std::atomic<int> gone = 0, handled = 0, failed = 0;

 private:
  static std::optional<HttpResponse> check(const HttpRequest& r) {
    if (r.path == "/refused") return HttpResponse{.status = 404, .body = "no"};
    return std::nullopt;
  }
  void handle(HttpRequest request, const Exchange& exchange) {
    ++handled;
    exchange.on_gone([this] { ++gone; });
    if (request.path == "/never") return;
    if (request.path == "/lost") throw std::runtime_error("lost");
    if (request.path == "/lost-later") {
      return server_.post([] { throw std::runtime_error("lost"); });
    }
    const bool burst = request.path == "/burst", flood = request.path == "/flood";
    if (request.path != "/stream" && !burst && !flood) return exchange.send({.body = request.body});
    exchange.begin();
    if (burst) {
      for (int i = 0; i < 64; ++i) exchange.write(std::string(std::size_t{64} << 10, 'x'));
      return exchange.end();
    }
    if (flood) {
      streams_.emplace_back([this, exchange] {
        for (int i = 0; i < 400 && gone == 0; ++i) {
          server_.post([exchange] { exchange.write(std::string(std::size_t{64} << 10, 'x')); });
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
      return;
    }
    streams_.emplace_back([this, exchange] {
      for (int i = 0; i < 20; ++i) {
        server_.post([exchange, i] { exchange.write("data: " + std::to_string(i) + "\n\n"); });
        if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      server_.post([exchange] { exchange.end(); });
    });
  }

  HttpServer server_;
  int port_ = 0;
  std::thread thread_;
  std::vector<std::thread> streams_;
};

std::string post(const std::string& path, const std::string& body, bool last = true) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         (last ? "\r\nConnection: close" : "") + "\r\n\r\n" + body;
}

template <class Condition>
bool becomes(Condition condition) {
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(HostName, IsWithoutPortAndInLowerCase) {
  for (const auto& [field, name] :
       {std::pair("Example.ORG:8080", "example.org"), std::pair("localhost.", "localhost"),
        std::pair("[::1]:80", "::1"), std::pair("[::1", "::1"), std::pair("127.0.0.1", "127.0.0.1"),
        std::pair("[", ""), std::pair(":80", ""), std::pair("", "")}) {
    EXPECT_EQ(host_name(field), name);
  }
  for (const char* name : {"127.0.0.1", "10.0.0.7", "::1", "localhost", "a.localhost"}) {
    EXPECT_TRUE(is_fixed_host(name)) << name;
  }
  for (const char* name :
       {"example.org", "localhost.example.org", "127.0.0.1.example.org", "notlocalhost", ""}) {
    EXPECT_FALSE(is_fixed_host(name)) << name;
  }
}

TEST(HttpServer, AnswersOneRequestAfterTheOther) {
  TestServer server;
  EXPECT_NE(server.ask(post("/echo", "hello")).find("\r\n\r\nhello"), std::string::npos);
  std::string many;
  for (int i = 0; i < 50; ++i) many += post(i % 3 == 0 ? "/stream" : "/echo", "x", false);
  const std::string answers = server.ask(many + post("/echo", "the last"));
  EXPECT_EQ(count(answers, "HTTP/1.1 200 OK"), 51U);
  EXPECT_EQ(count(answers, "data: 19\n"), 17U);
  EXPECT_TRUE(answers.ends_with("the last"));
  EXPECT_EQ(server.gone, 0);
}

TEST(HttpServer, WhatACallThrowsEndsNoOther) {
  TestServer server;
  Client lost(server.port()), later(server.port());
  lost.send(post("/lost", "a"));
  later.send(post("/lost-later", "a"));
  EXPECT_TRUE(becomes([&] { return server.failed == 2; }));
  EXPECT_TRUE(server.ask(post("/", "still here")).ends_with("still here"));
  EXPECT_TRUE(becomes([&] { return server.connections > 0; })) << "it ticks";
}

TEST(HttpServer, RefusesAtTheHeadAndReadsNoBody) {
  TestServer server;
  Client client(server.port());
  client.send("POST /refused HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nxxx");
  EXPECT_TRUE(client.receive(12).starts_with("HTTP/1.1 404"));
  EXPECT_EQ(server.handled, 0);
}

TEST(HttpServer, BodiesTogetherAreBounded) {
  HttpLimits limits;
  limits.body = 1000;
  limits.bodies = 2500;
  TestServer server(limits);
  const std::string begun = "POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n\r\nx";
  for (int turn = 0; turn < 3; ++turn) {  // what is given up is given back
    Client a(server.port()), b(server.port());
    a.send(begun);
    b.send(begun);
    EXPECT_TRUE(becomes([&] { return server.connections >= 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(server.ask(post("/echo", std::string(1000, 'y'))).starts_with("HTTP/1.1 503"));
    EXPECT_TRUE(server.ask(post("/echo", std::string(400, 'y'))).starts_with("HTTP/1.1 200"));
    EXPECT_TRUE(server.ask(post("/echo", std::string(1001, 'y'))).starts_with("HTTP/1.1 413"));
  }
  EXPECT_TRUE(becomes([&] { return server.connections == 0; }));
  EXPECT_TRUE(server.ask(post("/echo", std::string(1000, 'y'))).starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, ConnectionsAreBoundedAndTheIdlestGoes) {
  HttpLimits limits;
  limits.connections = 8;
  TestServer server(limits);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<Client>(server.port()));
  EXPECT_TRUE(server.ask(post("/echo", "z")).ends_with("z"));
  idle.clear();
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<Client>(server.port()));
    busy.back()->send(post("/never", ""));
  }
  EXPECT_TRUE(becomes([&] { return server.handled == 9; }));
  EXPECT_TRUE(server.ask("").starts_with("HTTP/1.1 503"));
  busy.clear();
  EXPECT_TRUE(becomes([&] { return server.gone == 8; }));
}

TEST(HttpServer, ClientsThatAreLateAreGivenUp) {
  HttpLimits limits;
  limits.idle = limits.read_header = limits.read_body = 0.3;
  TestServer server(limits);
  EXPECT_EQ(server.ask(""), "");
  EXPECT_TRUE(server.ask("GET / HT").starts_with("HTTP/1.1 408"));
  EXPECT_TRUE(
      server.ask("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc").starts_with("HTTP/1.1 408"));
  EXPECT_TRUE(becomes([&] { return server.connections == 0; }));
}

TEST(HttpServer, AStreamMayBringMoreAtOnceThanASlowReaderMayOwe) {
  TestServer server;
  const std::string all = server.ask(post("/burst", "a"));
  EXPECT_GT(all.size(), std::size_t{4} << 20);
  EXPECT_TRUE(all.ends_with("0\r\n\r\n"));
}

TEST(HttpServer, AStreamWhoseReaderTakesNothingIsGivenUp) {
  HttpLimits limits;
  limits.patience = 0.3;
  TestServer server(limits);
  Client client(server.port());
  client.send(post("/flood", "a"));
  EXPECT_TRUE(becomes([&] { return server.gone == 1; }));
}

TEST(HttpServer, AReaderThatDoesNotReadIsGivenUp) {
  HttpLimits limits;
  limits.write = 0.3;
  limits.body = limits.bodies = std::size_t{64} << 20;
  TestServer server(limits);
  {
    Client client(server.port());
    client.send(post("/echo", std::string(std::size_t{32} << 20, 'x'), false));
    EXPECT_TRUE(becomes([&] { return server.handled == 1; }));
    // 32 MiB at 16 KiB a second is a long time; another client is served meanwhile.
    EXPECT_TRUE(server.ask(post("/echo", "z")).ends_with("z"));
  }
  EXPECT_TRUE(becomes([&] { return server.connections == 0; }));
}

// Requests cut, mutated, sent in pieces, several at once; clients leave at any moment. Afterwards
// nothing is left of them, and every request that was handled has ended.
TEST(HttpServer, MutatedRequestsLeaveNothingBehind) {
  const char* seconds = std::getenv("FORERUN_FUZZ_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds(seconds == nullptr ? 2 : std::atoi(seconds));
  TestServer server;
  std::mt19937 random(23);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<std::string> paths = {"/echo", "/stream", "/never", "/refused"};
  const std::vector<std::string> parts = {"\r\n",
                                          "\r\n\r\n",
                                          "Content-Length: 5\r\n",
                                          "0\r\n\r\n",
                                          "Transfer-Encoding: chunked\r\n",
                                          "-1",
                                          " ",
                                          ":",
                                          "Expect: 100-continue\r\n",
                                          "HTTP/1.0",
                                          "HEAD"};
  int turns = 0;
  for (; Clock::now() < end; ++turns) {
    std::string data;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      data += post(paths[below(paths.size())], std::string(below(50), 'b'), below(2) == 0);
    }
    for (std::size_t n = below(5); n > 0; --n) {
      const std::size_t at = below(data.size());
      switch (below(4)) {
        case 0:
          data[at] = static_cast<char>(random());
          break;
        case 1:
          data.erase(at, 1 + below(9));
          break;
        case 2:
          data.insert(at, parts[below(parts.size())]);
          break;
        default:
          data.resize(at + 1);
      }
      if (data.empty()) data = "x";
    }
    Client client(server.port(), 10);
    ASSERT_TRUE(client.connected());
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t n = 1 + below(data.size());
      client.send(std::string_view(data).substr(at, n));
      at += n;
    }
    if (below(2) == 0) client.end();
    if (below(3) == 0) static_cast<void>(client.receive(1 + below(200)));
  }
  RecordProperty("turns", turns);
  EXPECT_GT(turns, 20);
  EXPECT_TRUE(becomes([&] { return server.connections == 0; })) << server.connections;
  EXPECT_TRUE(server.ask(post("/echo", "z")).ends_with("z"));
}

}  // namespace
}  // namespace forerun::serve
