#include "forerun/serve/server.h"

#include <fmt/format.h>

#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "forerun/common.h"
#include "forerun/serve/app.h"
#include "forerun/serve/http/http_server.h"
#include "forerun/serve/loading.h"

namespace forerun::serve {

struct Server::Impl {
  explicit Impl(ServeOptions o)
      : options(std::move(o)), http(options.host, options.port, options.http) {}
  ServeOptions options;
  HttpServer http;
};

Server::Server(ServeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;

std::string Server::url() const { return impl_->http.url(); }

void Server::run(const std::function<Served()>& load, const ServeHooks& hooks) {
  HttpServer& http = impl_->http;
  std::optional<App> app;  // goes after the I/O thread, which calls it
  std::thread io([&] {
    http.run(
        loading_handler(impl_->options.origins), [] {},
        [&](const char* what) { App::failed(hooks, what); });
  });
  try {
    const Served served = load();
    app.emplace(impl_->options, served.model, served.images, hooks, http);
    std::promise<void> answers;
    http.post([&] {
      http.answer_with(app->handler(), [&] { app->tick(); });
      answers.set_value();
    });
    answers.get_future().wait();
    if (hooks.ready) hooks.ready(served.model);
    app->loop().run();
  } catch (...) {
    http.post([&] { http.stop(0.0); });
    io.join();
    throw;
  }
  io.join();
}

std::vector<std::string> read_keys(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw UsageError(fmt::format("cannot read the key file '{}'", path));
  std::vector<std::string> keys;
  bool first = true;
  for (std::string line; std::getline(in, line);) {
    if (std::exchange(first, false) && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  if (keys.empty()) {
    throw UsageError(fmt::format("the key file '{}' holds no key: write one a line", path));
  }
  return keys;
}

}  // namespace forerun::serve
