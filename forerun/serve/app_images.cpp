// Requests for images.
#include <algorithm>
#include <utility>

#include "forerun/base/base64.h"
#include "forerun/serve/api_error.h"
#include "forerun/serve/app.h"
#include "forerun/serve/json.h"

namespace forerun::serve {

using nlohmann::json;

void App::images(HttpRequest request, const Exchange& exchange) {
  if (!images_) {
    throw ApiError(404, "this server makes no images: start it with --image-model", "model",
                   "model_not_found");
  }
  const auto arrived = Clock::now();
  HttpRequest head = request;
  head.body = options_.log_prompts ? request.body.substr(0, 10'000) : std::string();
  auto body = std::make_shared<std::string>(std::move(request.body));
  parse(std::move(request), exchange,
        [this, body, head = std::move(head), exchange, arrived]() -> Parsed {
          const ImageRequest wanted = parse_images(parse_object(*body), *images_);
          return [this, head, exchange, arrived, wanted] {
            admit_images(head, exchange, wanted, arrived);
          };
        });
}

void App::admit_images(const HttpRequest& request, const Exchange& exchange,
                       const ImageRequest& wanted, Clock::time_point arrived) {
  if (full(wanted.n)) return reply(request, exchange, queue_full());
  const AskId ask = next_ask_++;
  made_images_ += wanted.n;
  auto answer = std::make_unique<ImageAnswer>(wanted, exchange, *images_, arrived);
  answer->begin();
  HttpRequest head = request;
  head.share.reset();
  image_answers_[ask] = {std::move(head), std::move(answer)};
  loop_.submit(ask, wanted.n,
               [submit = images_->submit, wish = wanted.wish](Engine& engine, std::size_t choice) {
                 return submit(engine, wish, static_cast<std::uint32_t>(choice));
               });
  exchange.on_gone([this, ask] {
    const auto at = image_answers_.find(ask);
    if (at == image_answers_.end()) return;
    at->second.second->gone = true;
    loop_.cancel(ask);
  });
}

// Values become a picture on a thread of their own, one after the other: a decoder of latents takes
// longer than a round.
void App::paint(AskId ask, std::span<const float> values, Picture picture) {
  painter_.post([this, ask, values = std::vector<float>(values.begin(), values.end()),
                 picture = std::move(picture)]() mutable {
    std::string error;
    try {
      const Image image = images_->decoder.image(values);
      picture.png = base64(png_grid({&image, 1}, 1));
    } catch (const std::exception& e) {
      error = e.what();
    }
    http_.post([this, ask, error, picture = std::move(picture)]() mutable {
      const auto at = image_answers_.find(ask);
      if (at == image_answers_.end()) return;
      ImageAnswer& answer = *at->second.second;
      if (!error.empty()) {
        loop_.cancel(ask);
        answer.fail(500, error);
      } else {
        answer.take(std::move(picture));
      }
      if (answer.complete()) images_ended(ask);
    });
  });
}

void App::image_news(const ChoiceEvent& news) {
  const auto at = image_answers_.find(news.ask);
  if (at == image_answers_.end()) return;
  if (const auto* seen = std::get_if<ImagePreview>(&news.event); seen && seen->step > 0) {
    paint(news.ask, seen->values, {.index = news.choice, .finished = false, .step = seen->step});
  } else if (const auto* done = std::get_if<ImageFinished>(&news.event)) {
    metrics_.image_finished(done->statistics);
    paint(news.ask, done->values,
          {.index = news.choice, .whole = done->complete, .statistics = done->statistics});
  } else if (const auto* failed = std::get_if<Failed>(&news.event)) {
    loop_.cancel(news.ask);  // the other images of a failed request
    // What the engine does not take is the client's to change.
    at->second.second->fail(failed->id == 0 ? 400 : 500, failed->message);
    images_ended(news.ask);
  }
}

void App::images_ended(AskId ask) {
  const auto at = image_answers_.find(ask);
  auto& [request, answer] = at->second;
  answer->end();
  const RunStatistics& s = answer->statistics();
  const unsigned status = answer->gone ? kClientGone : answer->status();
  json more = {{"ms", milliseconds_since(answer->arrived())},
               {"images", answer->request().n},
               {"steps", s.outputs},
               {"drafted", s.drafted},
               {"kept", s.kept()},
               {"seed", answer->request().wish.seed}};
  if (options_.log_prompts) more["body"] = request.body;
  log(request, status, std::move(more));
  metrics_.answered(request.path, status);
  made_images_ -= answer->request().n;
  image_answers_.erase(at);
}

}  // namespace forerun::serve
