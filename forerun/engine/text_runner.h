#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "forerun/engine/prefix_cache.h"
#include "forerun/engine/runner.h"
#include "forerun/engine/text.h"
#include "forerun/engine/text_pass.h"
#include "forerun/tensor/cpu/kv_pool.h"

namespace forerun {

struct TextRunnerOptions {
  std::size_t max_active = 0;  ///< texts that run at a time; 0 = as many as memory allows
  std::size_t kv_bytes = 0;    ///< of keys and values, kept ones included; 0 = no limit
  /// Keep the keys and values of this many ended texts for texts that begin alike; 0 = none. Float
  /// results may then differ in rounding from those of a text alone; int8 ones do not.
  std::size_t max_prefixes = 0;
};

/// Generates the texts of one model. A step is one round: texts that are ready are drafted for,
/// each by its drafter, and verified in one pass, in which new texts have a piece of their prompt
/// read. Not thread-safe.
class TextRunner final : public Runner {
 public:
  /// @param model  what it refers to outlives the runner
  TextRunner(const TextModel& model, const TextRunnerOptions& options);
  ~TextRunner() override;

  /// @throws std::invalid_argument  empty prompt, one beyond the context, a token outside the
  /// vocabulary, bad sampling parameters
  void submit(RequestId id, TextRequest request);
  bool busy() const override { return !active_.empty() || !waiting_.empty(); }
  void step(std::vector<Event>& events) override;
  bool cancel(RequestId id, std::vector<Event>& events) override;

  const KvPool& pool() const noexcept { return *pool_; }
  PrefixCache& prefixes() noexcept { return prefixes_; }
  std::size_t active() const noexcept { return active_.size(); }

 private:
  // The texts of one drafter in a round.
  struct Group {
    TextDrafter* drafter = nullptr;  // null: plain
    std::vector<Text*> texts;
    std::vector<TokenSequence*> sequences;
    std::vector<TokenDraft> drafts;
    std::vector<CompanionRows> companions;  // of each text
    std::vector<Outcome> outcomes;
    struct Error {
      std::string message;  // empty: none
      bool by_request = false;
    };
    std::vector<Error> errors;  // of each text
    Timings seconds;
    bool dropped = false;  // drafts were made in vain: their seconds say nothing

    // Takes a text out.
    void erase(std::size_t i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      texts.erase(texts.begin() + at);
      sequences.erase(sequences.begin() + at);
      drafts.erase(drafts.begin() + at);
      companions.erase(companions.begin() + at);
    }
  };

  void admit(std::vector<Event>& events);
  bool fits(Text& text, std::vector<Event>& events);
  void begin(Text& text);
  void take_beginning(Text& text);
  // The longest known beginning of a text.
  struct Beginning {
    const KvCache* cache = nullptr;  // null: none
    SequenceId from = 0;
    std::size_t length = 0;
    bool known_to_drafter = false;
  };
  Beginning beginning_of(const Text& text);
  Text::Awaited awaited_by(const Text& text) const;
  void take_beginnings();
  std::vector<Group> groups();
  void draft(std::vector<Group>& groups, std::size_t rows, std::vector<Event>& events);
  void check_drafts(Group& group, std::vector<Event>& events);
  void take_companions(Group& group) const;
  void plan_pieces(TextPass& pass, bool alone);
  bool run(TextPass& pass, std::vector<Event>& events);
  void make_room(TextPass& pass, std::vector<Group>& groups, std::vector<Event>& events);
  void wait(Text& text, std::vector<Event>& events);
  void pause(Text& text, std::vector<Event>& events);
  void resolve(Group& group, TextPass& pass, std::size_t texts, std::vector<Event>& events);
  void learn(Group& group, const TextRound& round, const TextPass& pass);
  void report(Group& group, std::size_t index, const TextRound& round, std::vector<Event>& events);
  void learn_pieces(const TextPass& pass, double seconds);
  void finish(Text& text, std::vector<Event>& events);
  void fail(Text& text, const std::string& message, std::vector<Event>& events,
            bool by_request = false);
  void remove(const Text& text);

  TextModel model_;
  TextRunnerOptions options_;
  std::shared_ptr<KvPool> pool_;
  PrefixCache prefixes_;
  std::deque<std::unique_ptr<Text>> waiting_;
  std::vector<std::unique_ptr<Text>> active_;  // in the order in which they were admitted
  double round_seconds_ = 0.0;                 // of a round without prompt pieces
  double piece_rows_ = 8.0;                    // of prompts beside running texts
};

}  // namespace forerun
