#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "forerun/api/access.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/hash.h"
#include "forerun/base/settings.h"
#include "forerun/formats/token_shards.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/methods/sam/corpus_source.h"
#include "forerun/methods/sam/sam_source.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// Tokens mean the same to the target, whoever wrote the answers. Shards without distill.json do not
// tell whose tokens they are.
void expect_tokens_of(const Model& target, const std::string& folder) {
  const auto settings = load_settings(fs::path(folder) / "distill.json");
  if (!settings) return;
  const std::string own = vocabulary_hash(impl_of(target).tokenizer);
  const bool same = settings->contains("vocabulary_hash")
                        ? settings->at("vocabulary_hash") == own
                        : settings->value("vocab", nlohmann::json()) == target.vocab() &&
                              settings->value("target_hash", nlohmann::json()) == target.hash();
  if (same) return;
  throw UsageError(
      fmt::format("{} holds answers of {}, whose vocabulary is not known to be that of {}: give "
                  "answers that forerun distill made with this target",
                  folder,
                  settings->contains("target") ? settings->at("target").dump(-1, ' ', true)
                                               : "an unnamed model",
                  target.path()));
}

// An index for every corpus in use, whatever its folder's name.
class CorpusIndices {
 public:
  static CorpusIndices& instance() {
    static CorpusIndices indices;
    return indices;
  }
  /// @throws std::invalid_argument  as CorpusIndex
  std::shared_ptr<const CorpusIndex> of(std::span<const CorpusDocument> documents,
                                        std::size_t vocab) {
    Hash hash;
    hash.add(vocab);
    for (const CorpusDocument& d : documents) hash.add(d.first).add_all(d.tokens);
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<const CorpusIndex>& known = indices_[hash.text()];
    if (auto index = known.lock()) return index;
    auto index = std::make_shared<const CorpusIndex>(documents, vocab);
    known = index;
    return index;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const CorpusIndex>> indices_;
};

std::shared_ptr<const CorpusIndex> load_corpus(const std::string& folder, const Model& target) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw UsageError(
        fmt::format("no corpus at '{}': give a folder that forerun distill wrote", folder));
  }
  expect_tokens_of(target, folder);
  const TokenShards shards = TokenShards::load(folder);
  std::vector<CorpusDocument> documents;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    documents.push_back({shards.tokens(i), static_cast<std::size_t>(shards.prompt(i))});
  }
  std::shared_ptr<const CorpusIndex> index;
  try {
    index = CorpusIndices::instance().of(documents, target.vocab());
  } catch (const std::invalid_argument& e) {
    throw UsageError(fmt::format("{}: {}", folder, e.what()));
  }
  if (index->size() == 0) {
    throw UsageError(fmt::format(
        "{} holds no answers: give a folder that forerun distill wrote some into", folder));
  }
  return index;
}

}  // namespace

DrafterKind sam_drafter() {
  const auto own = [] { return std::make_unique<SamSource>(); };
  return {.info = {.name = "sam",
                   .argument = "FOLDER",
                   .help = "a suffix automaton of the text: matches of any length, with counts; "
                           "with FOLDER also what followed in answers of forerun distill",
                   .optional = true},
          .source = own,
          .sources = [own](const Model& target, const std::string& folder) {
            return std::vector<FoundSource>{
                {"sam", own}, {"sam:" + folder, [index = load_corpus(folder, target)] {
                                 return std::make_unique<CorpusSource>(index);
                               }}};
          }};
}

}  // namespace forerun
