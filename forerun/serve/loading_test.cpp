// What clients get while the model is read.

#include "forerun/serve/loading.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "forerun/common.h"
#include "forerun/serve/server.h"
#include "tests/support/chat_model.h"

namespace forerun::serve {
namespace {

int port_of(const Server& server) {
  const std::string url = server.url();
  return std::stoi(url.substr(url.rfind(':') + 1));
}

// The whole response to a request without a body.
std::string ask(int port, const std::string& line, const std::string& fields = "") {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval wait{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request =
      line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n" + fields +
      "\r\n";
  EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(socket, buffer, sizeof buffer, 0)) > 0;) {
    out.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(socket);
  return out;
}

Served served_from(const std::string& folder) {
  const Model model = Model::load(folder, Precision::kF32);
  return {.model = {.id = "m", .model = model, .drafters = {Drafter()}}, .images = std::nullopt};
}

TEST(Loading, RequestsAreRefusedUntilTheModelIsThere) {
  const testing::TempFolder folder;
  const std::string model = testing::make_chat_model(folder.path() / "chat");
  Server server({.port = 0, .origins = {"https://a.example"}});
  const int port = port_of(server);
  std::promise<void> go_on, ready;
  std::atomic<bool> stop = false;
  std::thread run([&] {
    server.run(
        [&] {
          go_on.get_future().wait();
          return served_from(model);
        },
        {.stop = [&] { return stop.load(); },
         .log = {},
         .ready = [&](const ServedModel&) { ready.set_value(); }});
  });
  for (const char* line : {"GET /health", "GET /v1/models", "POST /v1/chat/completions",
                           "GET /props", "GET /no-such-path", "POST /"}) {
    const std::string refused = ask(port, line);
    EXPECT_EQ(refused.find("HTTP/1.1 503 "), 0U) << line;
    EXPECT_NE(refused.find(R"({"error":{"message":"Loading model","type":"unavailable_error",)"
                           R"("param":null,"code":503}})"),
              std::string::npos)
        << refused;
  }
  // A browser hands that to a page of an origin that may ask.
  constexpr std::string_view kMay = "Access-Control-Allow-Origin: https://a.example\r\n";
  const std::string known = "Origin: https://a.example\r\n";
  const std::string asked = ask(port, "OPTIONS /v1/chat/completions", known);
  EXPECT_EQ(asked.find("HTTP/1.1 200 "), 0U) << asked;
  EXPECT_NE(asked.find("Access-Control-Allow-Methods: GET, POST\r\n"), std::string::npos);
  for (const char* line : {"POST /v1/chat/completions", "GET /health"}) {
    const std::string refused = ask(port, line, known);
    EXPECT_EQ(refused.find("HTTP/1.1 503 "), 0U) << refused;
    EXPECT_NE(refused.find(kMay), std::string::npos) << refused;
    const std::string other = ask(port, line, "Origin: https://b.example\r\n");
    EXPECT_EQ(other.find("Access-Control"), std::string::npos) << other;
    EXPECT_NE(other.find("Vary: Origin\r\n"), std::string::npos) << other;
  }
  EXPECT_EQ(ask(port, "OPTIONS /health", "Origin: https://b.example\r\n").find("HTTP/1.1 503 "),
            0U);
  const std::string page = ask(port, "GET /");
  EXPECT_EQ(page.find("HTTP/1.1 200 "), 0U);
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
  go_on.set_value();
  ready.get_future().wait();
  EXPECT_EQ(ask(port, "GET /health").find("HTTP/1.1 200 "), 0U);
  EXPECT_EQ(ask(port, "GET /no-such-path").find("HTTP/1.1 404 "), 0U);
  stop = true;
  run.join();
}

TEST(Loading, WhatFailsEndsTheServer) {
  Server server({.port = 0});
  const auto load = []() -> Served { throw FormatError("model.gguf: is broken"); };
  EXPECT_THROW(server.run(load, {}), FormatError);
}

TEST(Loading, AnAddressInUseIsRefusedBeforeAModelIsRead) {
  Server server({.port = 0});
  EXPECT_THROW(Server({.port = static_cast<std::uint16_t>(port_of(server))}), UsageError);
}

}  // namespace
}  // namespace forerun::serve
