#include "forerun/serve/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/json.h"
#include "forerun/serve/origins.h"
#include "forerun/serve/response_request.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostParsing = 1024;
constexpr std::size_t kMostGiven = 64;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

double App::milliseconds_since(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

App::App(const ServeOptions& options, const ServedModel& served,
         const std::optional<ServedImages>& images, const ServeHooks& hooks, HttpServer& http)
    : options_(options),
      served_(served),
      images_(images),
      hooks_(hooks),
      http_(http),
      loop_(served.model, {.max_active = options.max_active, .kv_bytes = options.kv_bytes},
            [this](EngineNews n) {
              http_.post([this, n = std::move(n)]() mutable { news(std::move(n)); });
            }) {
  memory_.limit = options.kv_bytes > 0 ? options.kv_bytes : SIZE_MAX;
  measure_plain();
}

HttpHandler App::handler() {
  return {
      .check = [this](const HttpRequest& head) { return check(head); },
      .handle = [this](HttpRequest r, const Exchange& e) { handle(std::move(r), e); },
      .fields = [this](const HttpRequest& head) { return origin_fields(options_.origins, head); },
      .refuse =
          [this](unsigned status, const std::string& message) {
            metrics_.answered("", status);
            return to_response(ApiError(status, message));
          }};
}

// What plain decoding would take: the page and /props show it.
void App::measure_plain() {
  loop_.work(next_ask_++, [this](const std::function<bool()>& go_on) {
    try {
      const CostCurve curve =
          measure_cost(served_.model, {.rows = {1}, .prefix = 16, .repeats = 5, .go_on = go_on});
      if (curve.points.empty()) return;
      http_.post([this, seconds = curve.points.front().seconds] { plain_seconds_ = seconds; });
    } catch (const std::exception&) {  // a context of a few tokens: nothing is shown
    }
  });
}

void App::tick() {
  if (!draining_ && hooks_.stop && hooks_.stop()) {
    draining_ = true;
    if (hooks_.log) {
      hooks_.log(dump({{"time", now_text()},
                       {"event", "draining"},
                       {"answers", answers_.size() + image_answers_.size()}}));
    }
  }
  if (!draining_ || stopped_) return;
  if (!answers_.empty() || !image_answers_.empty() || parsing_ > 0 || certificates_ > 0) return;
  stopped_ = true;
  loop_.stop();
  http_.stop(5.0);
}

void App::failed(const ServeHooks& hooks, const char* what) {
  if (hooks.log) hooks.log(dump({{"time", now_text()}, {"event", "error"}, {"error", what}}));
}

std::string App::new_id(const char* prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, random_(), random_() & 0xFFFFFFFFU);
}

std::size_t App::waiting() const { return texts_ - std::min(texts_, memory_.active); }

bool App::full(std::size_t more) const {
  const std::size_t now = texts_ + made_images_;
  return now > 0 && now + more > options_.max_active + options_.max_queue;
}

HttpResponse App::queue_full() const {
  HttpResponse response = to_response(
      ApiError(429,
               fmt::format("{} texts and images are being made or wait, as many as the server "
                           "takes: try again later",
                           texts_ + made_images_),
               "", "queue_full"));
  // As long as the queue takes to be half as long, if requests take what they took so far.
  const double turns = static_cast<double>(waiting()) / 2.0 /
                       static_cast<double>(std::max<std::size_t>(1, memory_.active));
  const double seconds = std::clamp(std::ceil(turns * metrics_.mean_request_seconds()), 1.0, 60.0);
  response.headers = {{"Retry-After", fmt::format("{:.0f}", seconds)}};
  return response;
}

// What `work` returns is called on the I/O thread, unless the request is wrong.
// @param is_slow  asked by a worker: the work may take seconds
void App::parse(HttpRequest request, const Exchange& exchange, Parse work,
                std::function<bool()> is_slow) {
  if (parsing_ >= kMostParsing) return reply(request, exchange, queue_full());
  ++parsing_;
  auto read = [this, request = std::move(request), exchange, work = std::move(work)]() mutable {
    Parsed parsed;
    std::optional<HttpResponse> wrong;
    try {
      parsed = work();
    } catch (const ApiError& e) {
      wrong = to_response(e);
    } catch (const std::exception& e) {
      wrong = to_response(ApiError(500, e.what()));
    }
    http_.post([this, request = std::move(request), exchange, parsed = std::move(parsed),
                wrong = std::move(wrong)]() mutable {
      --parsing_;
      if (wrong) return reply(request, exchange, *wrong);
      parsed();
    });
  };
  workers_.post([this, read = std::move(read), is_slow = std::move(is_slow)]() mutable {
    is_slow&& is_slow() ? compilers_.post(std::move(read)) : read();
  });
}

void App::make_texts(HttpRequest request, const Exchange& exchange, Api api) {
  const auto arrived = Clock::now();
  auto body = std::make_shared<std::string>(std::move(request.body));
  HttpRequest head = request;
  if (options_.log_prompts) head.body = body->substr(0, 10'000);
  parse(
      std::move(request), exchange,
      [this, body, api, head = std::move(head), exchange, arrived]() -> Parsed {
        auto wanted = std::make_shared<GenerationRequest>(
            api == Api::kChat          ? parse_chat(*body, served_)
            : api == Api::kCompletions ? parse_completion(*body, served_)
                                       : parse_response(*body, served_));
        *body = {};
        return [this, head, exchange, arrived, wanted] {
          admit(head, exchange, std::move(*wanted), arrived);
        };
      },
      [body] { return may_hold_form(*body); });
}

void App::admit(const HttpRequest& request, const Exchange& exchange, GenerationRequest wanted,
                Clock::time_point arrived) {
  if (full(wanted.choices())) return reply(request, exchange, queue_full());
  const AskId ask = next_ask_++;
  texts_ += wanted.choices();
  const bool scores = wanted.echo && wanted.top;
  const char* const prefix = wanted.api == Api::kChat          ? "chatcmpl-"
                             : wanted.api == Api::kCompletions ? "cmpl-"
                                                               : "resp_";
  auto answer =
      std::make_unique<Answer>(new_id(prefix), std::move(wanted), exchange, served_, arrived);
  HttpRequest head = request;
  head.share.reset();
  answers_[ask] = {std::move(head), std::move(answer)};
  scores ? score_prompts(ask) : submit(ask);
  exchange.on_gone([this, ask] { gone(ask); });
}

void App::submit(AskId ask) {
  Answer& answer = *answers_.at(ask).second;
  answer.begin();
  loop_.submit(ask, answer.request().choices(),
               [model = served_.model, r = answer.request()](Engine& engine, std::size_t choice) {
                 GenerateOptions options = r.options;
                 options.request += static_cast<std::uint32_t>(choice);
                 return engine.submit(model, r.drafter, r.prompts[choice / r.n], options, r.top);
               });
}

// The log-probabilities of an echoed prompt come from passes of its own.
void App::score_prompts(AskId ask) {
  const GenerationRequest& wanted = answers_.at(ask).second->request();
  loop_.work(ask, [this, ask, prompts = wanted.prompts,
                   top = *wanted.top](const std::function<bool()>& go_on) {
    std::vector<std::vector<TokenScore>> scores;
    std::string error;
    try {
      for (const auto& prompt : prompts) {
        scores.push_back(score(served_.model, prompt, top, go_on));
      }
    } catch (const std::exception& e) {
      error = e.what();
    }
    http_.post([this, ask, scores = std::move(scores), error] {
      Answer& answer = *answers_.at(ask).second;
      if (!error.empty()) answer.fail(500, error);
      if (answer.gone || !error.empty()) return ended(ask);
      for (std::size_t i = 0; i < scores.size(); ++i) answer.scored(i, scores[i]);
      submit(ask);
    });
  });
}

void App::news(EngineNews news) {
  memory_ = news.memory;
  const std::vector<ChoiceEvent>& events = news.events;
  for (std::size_t i = 0; i < events.size();) {
    std::size_t end = i + 1;
    while (end < events.size() && events[end].ask == events[i].ask &&
           events[end].choice == events[i].choice) {
      ++end;
    }
    const AskId ask = events[i].ask;
    const auto at = answers_.find(ask);
    if (at == answers_.end()) {
      for (const ChoiceEvent& e : std::span(events).subspan(i, end - i)) image_news(e);
    } else {
      Answer& answer = *at->second.second;
      const unsigned before = answer.status();
      try {
        answer.take(events[i].choice, std::span(events).subspan(i, end - i), metrics_);
        if (answer.complete()) answer.end();
      } catch (const std::exception& e) {
        answer.fail(500, e.what());
      }
      if (answer.status() != before) loop_.cancel(ask);  // the other texts of a failed request
      if (answer.complete()) ended(ask);
    }
    i = end;
  }
}

void App::gone(AskId ask) {
  const auto at = answers_.find(ask);
  if (at == answers_.end()) return;
  at->second.second->gone = true;
  loop_.cancel(ask);
}

void App::ended(AskId ask) {
  const auto at = answers_.find(ask);
  const auto& [request, answer] = at->second;
  const Totals& t = answer->totals();
  const unsigned status = answer->gone ? kClientGone : answer->status();
  json more = {{"answer", answer->id()},
               {"ms", milliseconds_since(answer->arrived())},
               {"prompt_tokens", t.prompt_tokens},
               {"cached_tokens", t.cached_tokens},
               {"tokens", t.tokens},
               {"drafted", t.statistics.drafted},
               {"kept", t.statistics.kept()},
               {"drafter", answer->request().drafter.name()},
               {"seed", answer->request().options.seed}};
  if (answer->seconds_to_first_token() >= 0.0) {
    more["first_token_ms"] = 1e3 * answer->seconds_to_first_token();
  }
  if (options_.log_prompts) more["body"] = request.body;
  log(request, status, std::move(more));
  metrics_.answered(request.path, status);
  metrics_.request_took(milliseconds_since(answer->arrived()) / 1e3);
  texts_ -= answer->request().choices();
  if (status == 200) {
    given_.push_back({answer->id(), answer->request(), answer->tokens()});
    if (given_.size() > kMostGiven) given_.pop_front();
  }
  answers_.erase(at);
}

void App::log(const HttpRequest& request, unsigned status, json more) const {
  if (!hooks_.log) return;
  json line = {{"time", now_text()},
               {"request", request.id},
               {"remote", request.remote},
               {"method", request.method.substr(0, 16)},
               {"path", request.path.substr(0, 200)},
               {"status", status}};
  line.update(more);
  hooks_.log(dump(line));
}

}  // namespace forerun::serve
