#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forerun/serve/http/http.h"
#include "forerun/serve/image_request.h"

namespace forerun::serve {

/// A picture of image `index`: the finished one, or what the target predicts of it.
struct Picture {
  std::size_t index = 0;
  std::string png;           ///< base64
  bool finished = true;      ///< all of its steps are made, or it was cancelled
  bool whole = true;         ///< false: it was cancelled
  std::size_t step = 0;      ///< of a prediction: steps that were made
  RunStatistics statistics;  ///< of a finished one
};

/// The answer to a request for images, from its admission to its last byte. Belongs to the I/O
/// thread.
class ImageAnswer {
 public:
  using Clock = std::chrono::steady_clock;

  ImageAnswer(const ImageRequest& request, Exchange exchange, const ServedImages& served,
              Clock::time_point arrived);

  /// Begins a stream; a whole answer waits for its end.
  void begin();
  void take(Picture picture);
  /// Ends it with an error: the response, or the last event of a stream.
  void fail(unsigned status, const std::string& message);

  bool complete() const noexcept { return left_ == 0; }
  /// The images are made: sends what is left.
  void end();

  const ImageRequest& request() const noexcept { return request_; }
  unsigned status() const noexcept { return status_; }
  const RunStatistics& statistics() const noexcept { return statistics_; }
  Clock::time_point arrived() const noexcept { return arrived_; }

  bool gone = false;  ///< the client has left: nothing is written any more

 private:
  nlohmann::json frame() const;
  nlohmann::json made(const RunStatistics& s) const;
  void event(const char* type, nlohmann::json document);

  ImageRequest request_;
  Exchange exchange_;
  const ServedImages& served_;
  Clock::time_point arrived_;
  std::int64_t created_;
  std::vector<std::string> pngs_;
  std::vector<std::size_t> shown_;  // previews of each image
  std::size_t left_;
  RunStatistics statistics_;
  unsigned status_ = 200;
  bool failed_ = false;
};

}  // namespace forerun::serve
