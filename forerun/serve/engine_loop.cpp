#include "forerun/serve/engine_loop.h"

#include <algorithm>
#include <exception>
#include <new>

namespace forerun::serve {

EngineLoop::EngineLoop(const Model& model, const EngineOptions& options,
                       std::function<void(EngineNews)> deliver)
    : model_(model), engine_(options), deliver_(std::move(deliver)) {}

void EngineLoop::post(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
}

void EngineLoop::submit(AskId ask, std::size_t choices, SubmitChoice submit) {
  post(Submit{ask, choices, std::move(submit)});
}
void EngineLoop::cancel(AskId ask) { post(Cancel{ask}); }
void EngineLoop::work(AskId ask, Work work) { post(Job{ask, std::move(work)}); }

void EngineLoop::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void EngineLoop::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool idle = !engine_.busy() && jobs_.empty() && news_.events.empty();
      if (idle && commands_.empty()) {
        if (stopping_) return;
        changed_.wait(lock, [&] { return stopping_ || !commands_.empty(); });
      }
    }
    take_commands();
    if (!jobs_.empty()) run_job();
    step();
  }
}

bool EngineLoop::take_commands() {
  std::vector<Command> commands;
  {
    const std::scoped_lock lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    std::visit([&](auto& c) { obey(c); }, command);
  }
  return !commands.empty();
}

void EngineLoop::obey(Submit& command) {
  for (std::size_t choice = 0; choice < command.choices; ++choice) {
    try {
      running_[command.submit(engine_, choice)] = {command.ask, choice};
    } catch (const std::exception& e) {
      news_.events.push_back({command.ask, choice, Failed{0, e.what()}});
    }
  }
}

void EngineLoop::obey(Cancel& command) {
  for (const auto& [id, of] : running_) {
    if (of.first == command.ask) engine_.cancel(id);
  }
  if (job_ == command.ask) job_cancelled_ = true;
  // A job that waits is begun and finds out.
  for (Job& job : jobs_) {
    if (job.ask != command.ask) continue;
    job.work = [work = std::move(job.work)](const auto&) { work([] { return false; }); };
  }
}

void EngineLoop::obey(Job& command) { jobs_.push_back(std::move(command)); }

void EngineLoop::run_job() {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job_ = job.ask;
  job_cancelled_ = false;
  job.work([this] {
    take_commands();
    step();
    return !job_cancelled_;
  });
  job_ = 0;
}

void EngineLoop::step() {
  if (engine_.busy()) {
    try {
      for (Event& event : engine_.step()) {
        const RequestId id = std::visit([](const auto& e) { return e.id; }, event);
        const auto at = running_.find(id);
        if (at == running_.end()) continue;
        const auto [ask, choice] = at->second;
        const bool ended = std::holds_alternative<TextFinished>(event) ||
                           std::holds_alternative<ImageFinished>(event) ||
                           std::holds_alternative<Failed>(event);
        if (ended) running_.erase(at);
        news_.events.push_back({ask, choice, std::move(event)});
      }
    } catch (const std::exception& e) {
      step_failed(e.what());
    }
  }
  if (news_.events.empty()) return;
  news_.memory = engine_.memory(model_);
  deliver_(std::exchange(news_, {}));
}

// A round that cannot be made (no memory) leaves the requests as they are: the newest one goes, and
// with it what it holds.
void EngineLoop::step_failed(const std::string& message) {
  if (running_.empty()) throw;
  const auto newest = std::prev(running_.end());
  const RequestId id = newest->first;
  const auto [ask, choice] = newest->second;
  engine_.cancel(id);
  running_.erase(newest);
  news_.events.push_back({ask, choice, Failed{id, message}});
}

}  // namespace forerun::serve
