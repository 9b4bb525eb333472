// How an engine serves several texts at once: what a long prompt costs the texts that run, the next
// turn of a conversation, and the memory of idle ones. Prints ratios of times measured in one run.
//   build/release/bin/forerun_serving_bench MODEL [THREADS]
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "forerun/forerun.h"

namespace {

using namespace forerun;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Seconds of processor time of this thread, which works or waits for the others in all of a round:
// other work on the machine does not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> x) {
  if (x.empty()) return 0.0;
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

std::vector<Token> text(const Model& model, std::size_t n, std::size_t salt) {
  std::vector<Token> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<Token>(100 + (i * 7919 + salt * 104729) % (model.vocab() - 200));
  }
  return out;
}

GenerateOptions endless(std::uint32_t request) {
  GenerateOptions o;
  o.max_tokens = 1U << 20;
  o.ignore_end = true;
  o.request = request;
  return o;
}

// Of every step on the way to a first output.
struct Steps {
  std::vector<double> seconds, processor;

  std::vector<Event> run(Engine& engine) {
    const auto start = Clock::now();
    const double used = processor_seconds();
    std::vector<Event> events = engine.step();
    processor.push_back(processor_seconds() - used);
    seconds.push_back(since(start));
    return events;
  }
};

struct FirstToken {
  double seconds = 0.0;  // from `submit` on
  Steps steps;
};

FirstToken first_token(Engine& engine, const Model& model, const std::vector<Token>& prompt,
                       std::uint32_t request) {
  FirstToken out;
  const auto start = Clock::now();
  GenerateOptions o = endless(request);
  const RequestId id = engine.submit(model, Drafter(), prompt, o, 0);
  for (;;) {
    for (const Event& event : out.steps.run(engine)) {
      const auto* token = std::get_if<TokenOutput>(&event);
      if (token == nullptr || token->id != id) continue;
      out.seconds = since(start);
      engine.cancel(id);
      return out;
    }
  }
}

void print_rounds(const char* what, std::vector<double> rounds, const std::vector<double>& usual) {
  const double one = median(usual);
  std::sort(rounds.rbegin(), rounds.rend());
  std::printf(
      "  %s: usual round %.1f ms; longest of %zu %.2f times that, 99%% below %.2f, median %.2f\n",
      what, 1e3 * one, rounds.size(), rounds[0] / one, rounds[rounds.size() / 100] / one,
      rounds[rounds.size() / 2] / one);
}

void arrival(const Model& model) {
  constexpr std::size_t kPrompt = 4000;
  double alone = 0.0;
  Steps usual;
  FirstToken beside;
  {
    Engine engine({.max_prefixes = 0});
    first_token(engine, model, text(model, 64, 9), 9);  // warms up
    alone = first_token(engine, model, text(model, kPrompt, 8), 8).seconds;
  }
  {
    Engine engine({.max_prefixes = 0});
    for (std::uint32_t i = 0; i < 4; ++i) {
      engine.submit(model, Drafter(), text(model, 100, i), endless(i));
    }
    for (int i = 0; i < 10; ++i) engine.step();
    for (int i = 0; i < 50; ++i) usual.run(engine);
    beside = first_token(engine, model, text(model, kPrompt, 8), 8);
  }
  std::printf("a prompt of %zu tokens beside 4 texts\n", kPrompt);
  print_rounds("on the clock", beside.steps.seconds, usual.seconds);
  print_rounds("processor time", beside.steps.processor, usual.processor);
  std::printf("  time to its first token %.2f s, alone %.2f s: %.2f\n", beside.seconds, alone,
              beside.seconds / alone);
}

void next_turn(const Model& model) {
  Engine engine;
  first_token(engine, model, text(model, 64, 7), 7);
  const std::vector<Token> history = text(model, 1500, 1);
  GenerateOptions o = endless(1);
  o.max_tokens = 64;
  const auto start = Clock::now();
  double first = 0.0;
  engine.submit(model, Drafter(), history, o, 0);
  std::vector<Token> all = history;
  while (engine.busy()) {
    for (const Event& event : engine.step()) {
      if (const auto* token = std::get_if<TokenOutput>(&event)) {
        if (first == 0.0) first = since(start);
        all.push_back(token->token);
      }
    }
  }
  const std::vector<Token> turn = text(model, 30, 2);
  all.insert(all.end(), turn.begin(), turn.end());
  const FirstToken second = first_token(engine, model, all, 2);
  std::size_t shared = 0;
  for (const Event& event : engine.step()) {
    if (const auto* done = std::get_if<TextFinished>(&event)) shared = done->result.shared_tokens;
  }
  std::printf(
      "second turn after %zu tokens: %zu read again, first token %.0f ms, in the first turn "
      "%.0f ms: %.3f\n",
      all.size() - turn.size(), all.size() - shared, 1e3 * second.seconds, 1e3 * first,
      second.seconds / first);
}

// Bytes that the program has from the heap.
std::size_t heap() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

void idle(const Model& model) {
  constexpr std::size_t kChats = 64, kTokens = 500;
  Engine engine;
  first_token(engine, model, text(model, kTokens, 99), 99);
  engine.step();
  const std::size_t used = engine.memory(model).used, before = heap();
  for (std::uint32_t i = 0; i < kChats; ++i) {
    GenerateOptions o = endless(i);
    o.max_tokens = 2;
    engine.submit(model, Drafter(), text(model, kTokens, i), o);
    while (engine.busy()) engine.step();
  }
  const std::size_t pages = engine.memory(model).used - used;
  std::printf("%zu idle conversations of %zu tokens: %.1f MiB of pages each, %.1f KiB beside\n",
              kChats, kTokens, static_cast<double>(pages) / kChats / 1048576.0,
              (static_cast<double>(heap()) - static_cast<double>(before)) / kChats / 1024.0);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) {
      std::fprintf(stderr, "usage: %s MODEL [THREADS]\n", argv[0]);
      return 2;
    }
    if (argc > 2) set_threads(std::atoi(argv[2]));
    const Model model = Model::load(argv[1], kAutoPrecision);
    const Machine m = machine();
    std::printf("%s, %d threads\n", m.cpu.c_str(), m.threads);
    idle(model);
    arrival(model);
    next_turn(model);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
