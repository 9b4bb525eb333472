#include "forerun/api/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/api/access.h"
#include "forerun/api/beside_model.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/hash.h"
#include "forerun/base/settings.h"
#include "forerun/formats/safetensors_write.h"
#include "forerun/formats/token_shards.h"
#include "forerun/formats/tokenizer/vocabulary.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOrderFormat = "forerun corpus order 1";
// Fewer places are sorted in less time than a file takes.
constexpr std::size_t kManyPlaces = std::size_t{1} << 17;

// Tokens mean the same to the target, whoever wrote the answers. Shards without a manifest do not
// tell whose tokens they are.
void expect_tokens_of(const Model& target, const fs::path& folder) {
  const auto settings = load_settings(folder / kDistillManifest);
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
                  folder.string(),
                  settings->contains("target") ? settings->at("target").dump(-1, ' ', true)
                                               : "an unnamed model",
                  target.path()));
}

// The order of a corpus that was sorted before. A file that is missing, damaged or of another
// corpus gives none: it only saves time.
class KeptOrder {
 public:
  KeptOrder(fs::path file, std::string corpus)
      : file_(std::move(file)), corpus_(std::move(corpus)) {
    std::error_code failed;
    if (!fs::is_regular_file(file_, failed)) return;
    try {
      read_ = load_safetensors(file_);
    } catch (const FormatError&) {
      return;
    }
    const auto is = [&](const char* name, const std::string& value) {
      const auto at = read_.metadata().find(name);
      return at != read_.metadata().end() && at->second == value;
    };
    if (!is("format", kOrderFormat) || !is("corpus", corpus_)) return;
    const auto places = numbers_of<std::uint32_t>(read_, "places", DType::kI32);
    if (places) places_ = *places;
  }

  std::span<const std::uint32_t> places() const noexcept { return places_; }

  // Nothing is lost where the folder cannot be written: it is sorted again next time.
  void write(std::span<const std::uint32_t> places) const {
    const TensorView view{
        "places", DType::kI32, {static_cast<std::int64_t>(places.size())}, std::as_bytes(places)};
    try {
      write_safetensors(file_, {&view, 1}, {{"format", kOrderFormat}, {"corpus", corpus_}});
    } catch (const FormatError&) {
    }
  }

 private:
  fs::path file_;
  std::string corpus_;
  Safetensors read_;
  std::span<const std::uint32_t> places_;
};

std::shared_ptr<const CorpusIndex> make_index(std::span<const CorpusDocument> documents,
                                              std::size_t vocab, const KeptOrder& kept) {
  if (!kept.places().empty()) {
    try {
      return std::make_shared<const CorpusIndex>(documents, vocab, kept.places());
    } catch (const std::invalid_argument&) {  // a damaged file
    }
  }
  auto index = std::make_shared<const CorpusIndex>(documents, vocab);
  if (index->size() >= kManyPlaces) kept.write(index->order());
  return index;
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
                                        std::size_t vocab, const fs::path& folder) {
    Hash hash;
    hash.add(vocab);
    for (const CorpusDocument& d : documents) hash.add(d.first).add_all(d.tokens);
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<const CorpusIndex>& known = indices_[hash.text()];
    if (auto index = known.lock()) return index;
    auto index = make_index(documents, vocab, KeptOrder(folder / kOrderFile, hash.text()));
    known = index;
    return index;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const CorpusIndex>> indices_;
};

// May hold no answers.
std::shared_ptr<const CorpusIndex> read_corpus(const std::string& folder, const Model& target) {
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
    index = CorpusIndices::instance().of(documents, target.vocab(), folder);
  } catch (const std::invalid_argument& e) {
    throw UsageError(fmt::format("{}: {}", folder, e.what()));
  }
  return index;
}

// Found answers only save time: those that cannot be used are left out.
void look_beside(const Model& target, AnswersBeside& beside) {
  const std::string state = state_of_folder(beside.folder, kDistillManifest);
  if (state == beside.state) return;
  beside.state = state;
  beside.index = nullptr;
  beside.left_out.clear();
  if (state.empty()) return;
  try {
    if (auto index = read_corpus(beside.folder, target); index->size() > 0) {
      beside.index = std::move(index);
    }
  } catch (const std::exception& e) {
    beside.left_out = e.what();
  }
}

}  // namespace

AnswersBeside::AnswersBeside(const std::string& model_path)
    : folder(beside_model(model_path, ".answers")) {}

std::shared_ptr<const CorpusIndex> load_corpus(const std::string& folder, const Model& target) {
  AnswersBeside& beside = *impl_of(target).answers;
  std::shared_ptr<const CorpusIndex> index;
  if (folder == beside.folder) {
    const std::scoped_lock lock(beside.mutex);
    look_beside(target, beside);
    index = beside.index;
  }
  if (!index) index = read_corpus(folder, target);
  if (index->size() == 0) {
    throw UsageError(fmt::format(
        "{} holds no answers: give a folder that forerun distill wrote some into", folder));
  }
  return index;
}

bool has_answers_beside(const Model& target, std::string& left_out) {
  AnswersBeside& beside = *impl_of(target).answers;
  const std::scoped_lock lock(beside.mutex);
  look_beside(target, beside);
  left_out = beside.left_out;
  return beside.index != nullptr;
}

std::string answers_folder(const Model& model) { return impl_of(model).answers->folder; }

}  // namespace forerun
