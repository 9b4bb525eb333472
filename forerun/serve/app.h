#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "forerun/serve/answer.h"
#include "forerun/serve/engine_loop.h"
#include "forerun/serve/http/http.h"
#include "forerun/serve/http/http_server.h"
#include "forerun/serve/image_answer.h"
#include "forerun/serve/metrics.h"
#include "forerun/serve/server.h"
#include "forerun/serve/worker.h"

namespace forerun::serve {

/// What the server does with requests. Belongs to the I/O thread.
class App {
 public:
  using Clock = std::chrono::steady_clock;

  App(const ServeOptions& options, const ServedModel& served,
      const std::optional<ServedImages>& images, const ServeHooks& hooks, HttpServer& http);

  HttpHandler handler();
  void tick();
  /// Logs an error that belongs to no answer.
  static void failed(const ServeHooks& hooks, const char* what);
  EngineLoop& loop() noexcept { return loop_; }

 private:
  using Handle = void (App::*)(HttpRequest, const Exchange&);
  struct Route {
    const char* method;
    const char* path;
    Handle handle;
    bool open;   // needs no key
    bool makes;  // is refused while the server ends
  };
  // An answer that was given, for a certificate.
  struct Given {
    std::string id;
    GenerationRequest request;
    std::vector<Token> tokens;
  };
  // A request that the workers read, and what follows on the I/O thread.
  using Parsed = std::function<void()>;
  using Parse = std::function<Parsed()>;

  static constexpr unsigned kClientGone = 499;  // in the log, as nginx has it
  static double milliseconds_since(Clock::time_point from);
  static const std::vector<Route>& routes();
  static std::string plain_path(const std::string& path);
  static const Route* find_route(std::string_view path);
  static const Route* route_of(const std::string& path);
  std::optional<HttpResponse> check(const HttpRequest& head) const;
  bool knows(const std::string& authorization) const;
  bool is_called(const std::string& host) const;
  void handle(HttpRequest request, const Exchange& exchange);

  // app_routes.cpp
  void chat(HttpRequest request, const Exchange& exchange);
  void completions(HttpRequest request, const Exchange& exchange);
  void responses(HttpRequest request, const Exchange& exchange);
  void certify(HttpRequest request, const Exchange& exchange);
  void tokenize(HttpRequest request, const Exchange& exchange);
  void detokenize(HttpRequest request, const Exchange& exchange);
  void apply_template(HttpRequest request, const Exchange& exchange);
  void tokenizer_info(HttpRequest request, const Exchange& exchange);
  void models(HttpRequest request, const Exchange& exchange);
  void version(HttpRequest request, const Exchange& exchange);
  void health(HttpRequest request, const Exchange& exchange);
  void metrics(HttpRequest request, const Exchange& exchange);
  void props(HttpRequest request, const Exchange& exchange);
  void page(HttpRequest request, const Exchange& exchange);
  void reply(const HttpRequest& request, const Exchange& exchange, const HttpResponse& response);
  void make_texts(HttpRequest request, const Exchange& exchange, Api api);
  void on_worker(HttpRequest request, const Exchange& exchange,
                 std::function<nlohmann::json(const std::string& body)> work);

  // Texts.
  void parse(HttpRequest request, const Exchange& exchange, Parse work,
             std::function<bool()> is_slow = {});
  void admit(const HttpRequest& request, const Exchange& exchange, GenerationRequest wanted,
             Clock::time_point arrived);
  void submit(AskId ask);
  void score_prompts(AskId ask);
  void news(EngineNews news);
  void gone(AskId ask);
  void ended(AskId ask);
  bool full(std::size_t more) const;
  HttpResponse queue_full() const;
  std::size_t waiting() const;
  void certify_text(const HttpRequest& request, const Exchange& exchange, const Given& given);
  void measure_plain();

  // app_images.cpp
  void images(HttpRequest request, const Exchange& exchange);
  void admit_images(const HttpRequest& request, const Exchange& exchange,
                    const ImageRequest& wanted, Clock::time_point arrived);
  void paint(AskId ask, std::span<const float> values, Picture picture);
  void image_news(const ChoiceEvent& news);
  void images_ended(AskId ask);
  std::string new_id(const char* prefix);
  void log(const HttpRequest& request, unsigned status, nlohmann::json more) const;

  ServeOptions options_;
  ServedModel served_;
  std::optional<ServedImages> images_;
  ServeHooks hooks_;
  HttpServer& http_;
  Metrics metrics_;
  EngineLoop loop_;
  std::map<AskId, std::pair<HttpRequest, std::unique_ptr<Answer>>> answers_;
  std::map<AskId, std::pair<HttpRequest, std::unique_ptr<ImageAnswer>>> image_answers_;
  std::deque<Given> given_;  // the newest last
  EngineMemory memory_;
  AskId next_ask_ = 1;
  std::size_t texts_ = 0;        // that are not ended
  std::size_t made_images_ = 0;  // likewise
  std::size_t parsing_ = 0;      // requests at the workers
  std::size_t certificates_ = 0;
  std::optional<double> plain_seconds_;  // of a pass with one row
  bool draining_ = false, stopped_ = false;
  std::mt19937_64 random_{std::random_device{}()};
  Workers compilers_{2};  // of requests that may hold a form, which others need not wait for
  Workers workers_{2}, painter_{1};
};

}  // namespace forerun::serve
