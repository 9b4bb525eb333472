#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "forerun/api/model_impl.h"
#include "forerun/api/run.h"
#include "forerun/base/file_lock.h"
#include "forerun/base/hash.h"
#include "forerun/base/settings.h"
#include "forerun/base/utf8.h"
#include "forerun/formats/token_shards.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/text.h"
#include "forerun/train.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "forerun distill 2";
constexpr const char* kFormatWithoutHashes = "forerun distill 1";
// Prompts that the model writes draw numbers of their own.
constexpr std::uint64_t kSelfPromptSeed = 0x5e1fULL << 32;

std::string hash_of(std::span<const std::string> texts) {
  Hash hash;
  for (const std::string& text : texts) hash.add(text);
  return hash.text();
}

// What decides the documents. Not the number of self-prompts: more may be queried for later.
json manifest_of(const Model& model, std::span<const std::string> prompts,
                 const DistillOptions& o) {
  const SamplingParams& s = o.generate.sampling;
  return {{"format", kFormat},
          {"target", replace_invalid_utf8(fs::path(model.path()).filename().string())},
          {"target_hash", model.hash()},
          {"vocab", model.vocab()},
          {"vocabulary_hash", vocabulary_hash(impl_of(model).tokenizer)},
          {"precision", name_of(model.precision())},
          {"prompts", prompts.size()},
          {"prompts_hash", hash_of(prompts)},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"max_tokens", o.generate.max_tokens},
          {"self_temperature", o.self_temperature},
          {"seed", o.generate.seed}};
}

// What would fail for every prompt is said before a folder is made.
void check(const Model& model, const DistillOptions& o) {
  try {
    o.generate.sampling.check();
    SamplingParams{.temperature = o.self_temperature}.check();
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
  if (!o.generate.changes.none()) {  // a drafter learns the law of the model itself
    throw UsageError("distill: answers are made without bias and penalties: leave them out");
  }
  if (o.shard == 0) throw UsageError("a shard of 0 documents: ask for 1 or more");
  const Message turn{"user", "?"};
  model.encode_chat({&turn, 1});
}

// The user's turn as the model would write it: what stands between the chat format's own marks.
// Empty where the format has no place for one.
std::vector<Token> opening_of(const Model& model) {
  constexpr const char* kMark = "\x1a";
  const Message turn{"user", kMark};
  const std::vector<Token> whole = model.encode_chat({&turn, 1});
  const std::vector<Token> mark = model.encode(kMark);  // empty: no token spells it
  const auto at = mark.empty() ? whole.end() : std::find(whole.begin(), whole.end(), mark.back());
  return at == whole.end() ? std::vector<Token>() : std::vector<Token>(whole.begin(), at);
}

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return;
  throw FormatError(fmt::format("{}: cannot be made: {}; choose a folder that can be written",
                                folder.string(), failed.message()));
}

// Shards are no proof of a folder of ours: a model's weights have the same ending.
void expect_empty(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(std::string(kDistillManifest) + ".tmp-")) continue;  // of a killed process
    throw UsageError(
        fmt::format("{} holds {} and no {}: it is not of forerun distill, choose another --out",
                    folder.string(), name, kDistillManifest));
  }
}

void say(const DistillListener& listener, const std::string& line) {
  if (listener.on_note) listener.on_note(line);
}

// Begins the folder, or makes sure that it was begun with the same options.
void claim(const fs::path& folder, json wanted, const DistillListener& listener) {
  const std::optional<json> there = load_settings(folder / kDistillManifest);
  if (!there) {
    expect_empty(folder);
    save_settings(folder / kDistillManifest, wanted);
    return;
  }
  if (there->value("format", json()) == kFormatWithoutHashes) {
    for (const char* unknown : {"format", "target_hash", "prompts_hash"}) wanted.erase(unknown);
    say(listener,
        fmt::format("{} was begun by an earlier version of forerun, which kept no hashes: that "
                    "model and prompts are the same is taken on trust",
                    folder.string()));
  } else {
    wanted.erase("target");  // a model may be renamed
  }
  if (!there->contains("vocabulary_hash")) wanted.erase("vocabulary_hash");  // an earlier version
  const std::string difference = settings_difference(*there, wanted);
  if (difference.empty()) return;
  throw UsageError(
      fmt::format("{} holds answers made with {}: choose another --out, or the same options",
                  folder.string(), difference));
}

class Distiller {
 public:
  Distiller(const Model& model, std::span<const std::string> prompts, const fs::path& folder,
            const DistillOptions& options, const DistillListener& listener,
            std::vector<Token> opening)
      : model_(model),
        prompts_(prompts),
        folder_(folder),
        o_(options),
        listener_(listener),
        opening_(std::move(opening)) {
    const TokenShards there = TokenShards::load(folder);
    for (std::size_t i = 0; i < there.size(); ++i) {
      count({there.id(i), there.prompt(i), {there.tokens(i).begin(), there.tokens(i).end()}});
    }
    shards_ = there.shards();
  }

  Distilled run() {
    const std::size_t total = prompts_.size() + o_.self_prompts;
    std::vector<std::size_t> chunk;
    for (std::size_t id = 0; id < total && !stopped_; ++id) {
      if (!done_.contains(static_cast<std::int64_t>(id))) chunk.push_back(id);
      if (chunk.size() == o_.shard || (id + 1 == total && !chunk.empty())) {
        answer(chunk);
        chunk.clear();
      }
    }
    out_.seconds = seconds();
    out_.interrupted = stopped_;
    return out_;
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void count(const TokenDocument& d) {
    done_.insert(d.id);
    if (d.tokens.empty()) {
      ++out_.dropped;
      return;
    }
    const std::span<const Token> answer =
        std::span(d.tokens).subspan(static_cast<std::size_t>(d.prompt));
    ++out_.documents;
    out_.answer_tokens += answer.size();
    out_.looping += ends_in_loop(answer) ? 1 : 0;
  }

  bool go_on() {
    stopped_ = stopped_ || (listener_.go_on && !listener_.go_on());
    return !stopped_;
  }

  // Every text draws by its own id, whatever was answered before and whoever runs beside it.
  std::vector<Generated> generate_ids(std::span<const std::vector<Token>> prompts,
                                      std::span<const std::size_t> ids,
                                      const GenerateOptions& options, bool counts) {
    Listener listener;
    listener.go_on = [&] { return go_on(); };
    listener.on_round = [&](const RunStatistics& s) {
      if (!counts || !listener_.on_progress) return;
      const std::size_t made = out_.added_tokens + static_cast<std::size_t>(s.outputs);
      listener_.on_progress(out_.documents, prompts_.size() + o_.self_prompts, made, seconds());
    };
    std::vector<std::uint32_t> requests;
    for (const std::size_t id : ids) requests.push_back(static_cast<std::uint32_t>(id));
    return forerun::run(model_, Drafter(), prompts, options, listener, {}, requests);
  }

  std::vector<std::string> self_prompts(std::span<const std::size_t> ids) {
    const std::vector<std::vector<Token>> openings(ids.size(), opening_);
    GenerateOptions options = o_.generate;
    options.sampling = {.temperature = o_.self_temperature};
    options.seed = o_.generate.seed + kSelfPromptSeed;
    std::vector<std::string> out;
    for (Generated& g : generate_ids(openings, ids, options, false)) {
      // One that was cut short is no whole question.
      out.push_back(g.finish == Finish::kEndToken ? std::move(g.text) : std::string());
    }
    return out;
  }

  void answer(std::span<const std::size_t> ids) {
    std::vector<std::size_t> own;
    for (const std::size_t id : ids) {
      if (id >= prompts_.size()) own.push_back(id);
    }
    const std::vector<std::string> written =
        own.empty() ? std::vector<std::string>() : self_prompts(own);
    if (!go_on()) return;
    std::vector<std::vector<Token>> prompts;
    std::vector<std::size_t> queried;
    std::vector<TokenDocument> documents;
    for (std::size_t i = 0, j = 0; i < ids.size(); ++i) {
      const std::string& text = ids[i] < prompts_.size() ? prompts_[ids[i]] : written[j++];
      const Message turn{"user", text};
      auto tokens = text.empty() ? std::vector<Token>() : model_.encode_chat({&turn, 1});
      if (tokens.empty() || tokens.size() >= model_.context()) {
        // An empty document tells the next call that this one was queried for already.
        documents.push_back({.id = static_cast<std::int64_t>(ids[i])});
        count(documents.back());
        continue;
      }
      prompts.push_back(std::move(tokens));
      queried.push_back(ids[i]);
    }
    keep(prompts, queried, generate_ids(prompts, queried, o_.generate, true), std::move(documents));
  }

  // @param documents  further ones for the same shard
  void keep(std::span<const std::vector<Token>> prompts, std::span<const std::size_t> ids,
            const std::vector<Generated>& answers, std::vector<TokenDocument> documents) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].finish == Finish::kInterrupted) continue;
      TokenDocument d{.id = static_cast<std::int64_t>(ids[i]),
                      .prompt = static_cast<std::int64_t>(prompts[i].size()),
                      .tokens = prompts[i]};
      d.tokens.insert(d.tokens.end(), answers[i].tokens.begin(), answers[i].tokens.end());
      count(d);
      ++out_.added;
      out_.added_tokens += answers[i].tokens.size();
      documents.push_back(std::move(d));
    }
    if (documents.empty()) return;
    write_token_shard(next_shard(), documents, {{"format", "forerun token shard 1"}});
  }

  // A name that is free: shards may have been taken away.
  fs::path next_shard() {
    fs::path path;
    do {
      path = folder_ / fmt::format("tokens-{:05}.safetensors", shards_++);
    } while (fs::exists(path));
    return path;
  }

  const Model& model_;
  std::span<const std::string> prompts_;
  fs::path folder_;
  const DistillOptions& o_;
  const DistillListener& listener_;
  std::unordered_set<std::int64_t> done_;
  std::size_t shards_ = 0;
  Distilled out_;
  bool stopped_ = false;
  std::vector<Token> opening_;  // of a prompt that the model writes itself
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Distilled distill(const Model& model, std::span<const std::string> prompts,
                  const std::string& given_folder, const DistillOptions& options,
                  const DistillListener& listener) {
  const std::string folder = given_folder.empty() ? answers_folder(model) : given_folder;
  if (prompts.empty() && options.self_prompts == 0) {
    throw UsageError(
        "nothing to answer: give prompts (--prompts), or a number of self-prompts "
        "(--self-prompts)");
  }
  check(model, options);
  DistillOptions possible = options;
  std::vector<Token> opening;
  if (options.self_prompts > 0) opening = opening_of(model);
  if (options.self_prompts > 0 && opening.empty()) {
    const char* why = "self-prompts: this model's chat format has no place for one";
    if (prompts.empty()) throw UsageError(fmt::format("{}; give prompts", why));
    say(listener, fmt::format("{}; the {} given prompts alone are answered", why, prompts.size()));
    possible.self_prompts = 0;
  }
  make_folder(folder);
  // Two at once would answer the same prompts twice.
  const FolderLock lock(folder,
                        "another process writes answers into it; wait for its end, or choose "
                        "another --out");
  claim(folder, manifest_of(model, prompts, options), listener);
  Distilled out = Distiller(model, prompts, folder, possible, listener, std::move(opening)).run();
  out.folder = folder;
  return out;
}

bool ends_in_loop(std::span<const Token> tokens) {
  constexpr std::size_t kLeast = 30, kCopies = 3;
  const std::size_t n = tokens.size();
  for (std::size_t period = 1; period * kCopies <= n; ++period) {
    std::size_t same = period;
    while (same < n && tokens[n - 1 - same] == tokens[n - 1 - same + period]) ++same;
    if (same >= std::max(kLeast, kCopies * period)) return true;
  }
  return false;
}

}  // namespace forerun
