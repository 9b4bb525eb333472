#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forerun/serve/http/http.h"
#include "forerun/serve/served_images.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

struct ServeOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;      ///< 0 = any that is free
  std::vector<std::string> keys;  ///< any of them is accepted; none: no key is needed
  /// Names by which requests may call this server beside addresses and localhost, where it listens
  /// on this machine alone and needs no key; elsewhere any name is accepted.
  std::vector<std::string> names;
  /// Origins of pages that may send requests from a browser, beside the server's own page:
  /// "https://chat.example", or "*" for all.
  std::vector<std::string> origins;
  std::size_t max_active = 32;  ///< texts that run at a time
  std::size_t max_queue = 256;  ///< texts that wait; requests beyond them get 429
  std::size_t kv_bytes = 0;     ///< keys and values, in bytes; 0 = no limit
  bool log_prompts = false;     ///< log lines hold the text of requests
  HttpLimits http;
};

struct ServeHooks {
  /// Asked a few times a second: true lets running answers finish, refuses new ones, and ends.
  std::function<bool()> stop;
  /// One line of JSON for every request. Called on the I/O thread.
  std::function<void(const std::string&)> log;
  /// The model is read: requests are answered from now on.
  std::function<void(const ServedModel&)> ready;
};

/// What a server answers with.
struct Served {
  ServedModel model;
  std::optional<ServedImages> images;
};

/// An OpenAI-compatible server of one language model, and of an image model beside it.
class Server {
 public:
  /// Takes the address, so that one in use is found out before a model is loaded.
  /// @throws UsageError  no such address, or it is in use
  explicit Server(ServeOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;
  /// Serves until the hook says stop and the last answer is out. The calling thread becomes the
  /// engine's.
  /// @param load  reads the model; requests get status 503 until it is done
  /// @throws what `load` throws
  void run(const std::function<Served()>& load, const ServeHooks& hooks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The keys in a file, one a line; empty lines and those that begin with # are left out.
/// @throws UsageError  no such file, no key in it
std::vector<std::string> read_keys(const std::string& path);

}  // namespace forerun::serve
