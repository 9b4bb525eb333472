#include "forerun/serve/image_answer.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/json.h"

namespace forerun::serve {

using nlohmann::json;

ImageAnswer::ImageAnswer(const ImageRequest& request, Exchange exchange, const ServedImages& served,
                         Clock::time_point arrived)
    : request_(request),
      exchange_(std::move(exchange)),
      served_(served),
      arrived_(arrived),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      pngs_(request.n),
      shown_(request.n),
      left_(request.n) {}

// What every answer and event says of its images.
json ImageAnswer::frame() const {
  return {{"background", "opaque"},
          {"output_format", "png"},
          {"quality", "auto"},
          {"size", fmt::format("{0}x{0}", served_.decoder.side())}};
}

// How an image, or all of them, came about.
json ImageAnswer::made(const RunStatistics& s) const {
  return {
      {"seed", request_.wish.seed},  {"drafter", request_.wish.drafts ? served_.drafter : "none"},
      {"rule", served_.rule},        {"steps", s.outputs},
      {"rounds", s.rounds},          {"draft_n", s.drafted},
      {"draft_n_accepted", s.kept()}};
}

void ImageAnswer::event(const char* type, json document) {
  document["type"] = type;
  document["created_at"] = created_;
  if (!gone) exchange_.write(fmt::format("event: {}\ndata: {}\n\n", type, dump(document)));
}

void ImageAnswer::begin() {
  if (request_.stream) exchange_.begin();
}

void ImageAnswer::take(Picture picture) {
  if (failed_) return;
  json document = frame();
  document["index"] = picture.index;
  if (!picture.finished) {
    std::size_t& shown = shown_[picture.index];
    if (shown == request_.partial_images) return;
    document["partial_image_index"] = shown++;
    document["b64_json"] = std::move(picture.png);
    document["forerun"] = {{"step", picture.step}};
    return event("image_generation.partial_image", std::move(document));
  }
  --left_;
  statistics_.add(picture.statistics);
  if (!picture.whole) return;
  if (!request_.stream) {
    pngs_[picture.index] = std::move(picture.png);
    return;
  }
  document["b64_json"] = std::move(picture.png);
  document["forerun"] = made(picture.statistics);
  event("image_generation.completed", std::move(document));
}

void ImageAnswer::fail(unsigned status, const std::string& message) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
  left_ = 0;
  if (gone) return;
  const ApiError error(status, message);
  if (!request_.stream) return exchange_.send(to_response(error));
  exchange_.write("event: error\ndata: " + error.body() + "\n\n");
  exchange_.end();
}

void ImageAnswer::end() {
  if (failed_ || gone) return;
  if (request_.stream) return exchange_.end();
  json document = frame();
  document["created"] = created_;
  document["data"] = json::array();
  for (std::string& png : pngs_) document["data"].push_back({{"b64_json", std::move(png)}});
  document["forerun"] = made(statistics_);
  exchange_.send({.body = dump(document)});
}

}  // namespace forerun::serve
