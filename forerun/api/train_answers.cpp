#include "forerun/api/train_answers.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/settings.h"
#include "forerun/common.h"
#include "forerun/formats/token_shards.h"
#include "forerun/models/frozen_decoder.h"
#include "forerun/train/answers/answer_objective.h"
#include "forerun/train/device.h"

namespace forerun {

void need(bool holds, std::string_view what) {
  if (!holds) throw UsageError(std::string(what));
}

bool is_share(double x) noexcept { return x >= 0.0 && x <= 1.0; }

void check_answer_options(const AnswerLossOptions& o) {
  need(o.length >= 2, "length: 2 or more tokens of a document");
  need(std::isfinite(o.gamma) && o.gamma > 0.0, "gamma must be above 0");
  need(is_share(o.distill), "distill is a share: from 0 to 1");
  need(is_share(o.held_out) && o.held_out < 1.0, "held-out is a share: 0 or more, below 1");
}

namespace {

void expect_answers_of(const Model& target, const std::string& hash, const std::string& folder,
                       const Note& note) {
  const auto settings = load_settings(std::filesystem::path(folder) / kDistillManifest);
  if (!settings || !settings->contains("target_hash")) {
    note(fmt::format("{}: holds no hash of a model; that {} wrote its answers is taken on trust",
                     folder, target.path()));
    return;
  }
  if (settings->at("target_hash") == hash) return;
  throw UsageError(fmt::format(
      "{} holds answers of another model ({}), not of {}: name the one that forerun "
      "distill was given as --target",
      folder, settings->value("target", nlohmann::json()).dump(-1, ' ', true), target.path()));
}

}  // namespace

std::vector<TokenShards> load_documents(const std::vector<std::string>& folders,
                                        std::int64_t vocab) {
  need(!folders.empty(), "no data: give folders that forerun distill wrote");
  std::vector<TokenShards> out;
  for (const std::string& folder : folders) out.push_back(TokenShards::load(folder));
  for (std::size_t i = 0; i < folders.size(); ++i) {
    need(out[i].size() > 0,
         fmt::format("{} holds no answers: give folders that forerun distill wrote", folders[i]));
    check_documents(out[i], vocab);
  }
  return out;
}

Answers load_answers(const Model& target, const std::vector<std::string>& folders,
                     const Note& note) {
  Answers out;
  out.data = load_documents(folders, static_cast<std::int64_t>(target.vocab()));
  out.target_hash = target.hash();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (out.data[i].size() > 0) expect_answers_of(target, out.target_hash, folders[i], note);
  }
  return out;
}

bool reads_numbers(const TrainOptions& training) { return !device_of(training.device).is_cpu(); }

std::shared_ptr<const DecoderLm> frozen_numbers(const DecoderLm& numbers,
                                                const TrainOptions& training) {
  return std::make_shared<const DecoderLm>(frozen_decoder(
      numbers, training.bf16 ? at::kBFloat16 : at::kFloat, device_of(training.device)));
}

std::shared_ptr<const DecoderLm> target_of_states(const Model& target, const DecoderLm& numbers,
                                                  const TrainOptions& training) {
  if (reads_numbers(training)) return frozen_numbers(numbers, training);
  const auto kept = std::make_shared<const Model>(target);
  return {kept, &impl_of(*kept).lm};
}

}  // namespace forerun
