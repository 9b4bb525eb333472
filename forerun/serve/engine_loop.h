#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/engine.h"

namespace forerun::serve {

/// Names a request of a client; chosen by the caller of EngineLoop.
using AskId = std::uint64_t;

/// What happened to text or image `choice` of a request.
struct ChoiceEvent {
  AskId ask = 0;
  std::size_t choice = 0;
  Event event;
};

/// What a round of the engine brought.
struct EngineNews {
  std::vector<ChoiceEvent> events;
  EngineMemory memory;
};

/// The one thread that calls the engine. Everything but `run` may be called from any thread, and
/// returns at once.
class EngineLoop {
 public:
  /// @param deliver  called on the engine's thread after every round
  EngineLoop(const Model& model, const EngineOptions& options,
             std::function<void(EngineNews)> deliver);

  /// Works until `stop`, and until nothing is left to do.
  void run();
  void stop();

  /// Submits text or image `choice` of a request. What it throws is a Failed event of id 0.
  using SubmitChoice = std::function<RequestId(Engine& engine, std::size_t choice)>;
  /// Every choice of the request ends with a TextFinished, ImageFinished or Failed.
  void submit(AskId ask, std::size_t choices, SubmitChoice submit);
  /// Ends what runs for a request; unknown ones are ignored.
  void cancel(AskId ask);
  /// Work beside the texts, such as a certificate. It asks `go_on` now and then: rounds of the
  /// texts are made within, and false says that the request was cancelled. What it throws is its
  /// own affair: it must catch.
  using Work = std::function<void(const std::function<bool()>& go_on)>;
  void work(AskId ask, Work work);

 private:
  struct Submit {
    AskId ask;
    std::size_t choices;
    SubmitChoice submit;
  };
  struct Cancel {
    AskId ask;
  };
  struct Job {
    AskId ask;
    Work work;
  };
  using Command = std::variant<Submit, Cancel, Job>;

  void post(Command command);
  bool take_commands();
  void obey(Submit& command);
  void obey(Cancel& command);
  void obey(Job& command);
  void step();
  void step_failed(const std::string& message);
  void run_job();

  Model model_;
  Engine engine_;
  std::function<void(EngineNews)> deliver_;
  std::map<RequestId, std::pair<AskId, std::size_t>> running_;
  EngineNews news_;
  std::deque<Job> jobs_;
  AskId job_ = 0;  // the one that runs
  bool job_cancelled_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  bool stopping_ = false;
};

}  // namespace forerun::serve
