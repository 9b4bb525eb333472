#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "forerun/train/trainer.h"
#include "tests/support/tiny_objective.h"

namespace forerun::testing {

/// Training options of tests; quick, deterministic, on one thread.
inline TrainOptions quick_options(const std::filesystem::path& out) {
  TrainOptions o;
  o.out = out.string();
  o.steps = 60;
  o.batch = 8;
  o.micro_batch = 4;
  o.learning_rate = 1e-2;
  o.weight_decay = 0.1;
  o.ema = 0.95;
  o.bf16 = false;
  o.evaluate_steps = 20;
  o.checkpoint_steps = 10;
  o.checkpoint_seconds = 0.0;
  o.threads = 1;
  return o;
}

/// The variable that makes the test program train instead of test: a JSON object.
inline constexpr const char* kWorker = "FORERUN_TEST_WORKER";

// A signal handler can reach only globals.
inline volatile std::sig_atomic_t worker_asked_to_stop = 0;

/// Trains in this process as the object says: "out"; perhaps "steps", "checkpoint_steps", "batch",
/// "micro_batch"; "step_ms" (time a step takes at least); and the failure on rank "bad_rank" at
/// step "bad_step": "bad" = "throw", "die" or "nan".
/// @return  exit status, 130 if stopped (SIGTERM, SIGUSR1); failures go to standard error as one
/// line
inline int train_as_asked(const nlohmann::json& asked) {
  for (const int signal : {SIGTERM, SIGUSR1}) {  // as the command does
    std::signal(signal, [](int) { worker_asked_to_stop = 1; });
  }
  TrainOptions o = quick_options(asked.at("out").get<std::string>());
  o.steps = asked.value("steps", o.steps);
  o.checkpoint_steps = asked.value("checkpoint_steps", o.checkpoint_steps);
  o.batch = asked.value("batch", o.batch);
  o.micro_batch = asked.value("micro_batch", o.micro_batch);
  o.evaluate_steps = asked.value("evaluate_steps", o.evaluate_steps);
  try {
    Ranks ranks = Ranks::join();
    TinyObjective::Options tiny;
    int calls = 0;
    const std::string bad = asked.value("bad", "");
    tiny.before_loss = [&](std::span<const std::size_t>) {
      std::this_thread::sleep_for(std::chrono::milliseconds(asked.value("step_ms", 0)));
      if (ranks.rank() != asked.value("bad_rank", 0) || ++calls != asked.value("bad_step", 0))
        return;
      if (bad == "throw") throw std::runtime_error("shard 3 is damaged");
      if (bad == "die") std::raise(SIGKILL);
      if (bad == "nan") tiny.poison = std::numeric_limits<double>::quiet_NaN();
    };
    TinyObjective objective(tiny, &tiny.poison);
    TrainListener listener;
    listener.on_note = [](std::string_view line) {
      std::fprintf(stderr, "note: %.*s\n", static_cast<int>(line.size()), line.data());
    };
    listener.go_on = [] { return worker_asked_to_stop == 0; };
    const TrainReport report = train(objective, o, listener, ranks);
    return report.end == TrainEnd::kDone ? 0 : 130;
  } catch (const StoppedByOtherRank&) {
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "worker: %s\n", e.what());
    return 1;
  }
}

/// The lines of a log.
inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

/// The part of a log that must not depend on when a run was stopped: without times and events.
inline std::vector<nlohmann::json> losses_of(const std::filesystem::path& log) {
  std::vector<nlohmann::json> out;
  for (nlohmann::json line : read_lines(log)) {
    if (line.contains("run") || line.contains("resumed")) continue;
    for (const char* key : {"tokens_per_second", "gflops_per_second", "step_seconds", "seconds"}) {
      line.erase(key);
    }
    out.push_back(line);
  }
  return out;
}

}  // namespace forerun::testing
