#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "forerun/common.h"
#include "forerun/engine.h"
#include "forerun/text.h"
#include "tests/support/tiny_dflash.h"

/// Texts of a tiny target in an engine, with drafters of every kind.
namespace forerun::testing {

/// The target, in int8 where the processor has it: then a text has the same bits in any company.
inline const Model& engine_target() {
  static const Model model =
      Model::load(chat_model_path(), machine().int8 ? Precision::kInt8 : Precision::kF32);
  return model;
}

inline const std::vector<Drafter>& drafters() {
  static const std::vector<Drafter> all = [] {
    const std::string network = tiny_dflash_path();
    std::vector<Drafter> out;
    for (const std::string& name :
         {std::string("none"), std::string("lookup"), "draft-model:" + chat_model_path(),
          "dflash:" + network, "dflash:" + network + "+lookup+recycling",
          std::string("sam+recycling+lookahead"), "draft-model:" + chat_model_path() + "+lookup"}) {
      out.push_back(Drafter::load(name, engine_target(), kAutoPrecision));
    }
    return out;
  }();
  return all;
}

/// Of few tokens, so that lookup finds some.
inline std::vector<Token> prompt(std::mt19937& random, std::size_t n) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(static_cast<Token>(10 + random() % 12));
  }
  return out;
}

/// What became of the requests.
struct Ended {
  std::map<RequestId, TextResult> texts;
  std::map<RequestId, std::string> pieces, failures;
  std::set<RequestId> failed_by_request;
  std::map<RequestId, std::vector<Token>> tokens;
  std::size_t waits = 0;
};

inline void take(const std::vector<Event>& events, Ended& out) {
  for (const Event& event : events) {
    if (const auto* piece = std::get_if<TextPiece>(&event)) out.pieces[piece->id] += piece->text;
    if (const auto* token = std::get_if<TokenOutput>(&event)) {
      out.tokens[token->id].push_back(token->token);
    }
    if (const auto* done = std::get_if<TextFinished>(&event)) out.texts[done->id] = done->result;
    if (const auto* failed = std::get_if<Failed>(&event)) {
      out.failures[failed->id] = failed->message;
      if (failed->by_request) out.failed_by_request.insert(failed->id);
    }
    out.waits += std::holds_alternative<Waiting>(event) ? 1 : 0;
  }
}

inline void finish(Engine& engine, Ended& out) {
  while (engine.busy()) take(engine.step(), out);
}

/// A text that an engine is asked for.
struct Job {
  std::vector<Token> prompt;
  GenerateOptions options;
  std::size_t drafter = 0;
};

inline RequestId submit(Engine& engine, const Job& job) {
  return engine.submit(engine_target(), drafters()[job.drafter], job.prompt, job.options);
}

}  // namespace forerun::testing
