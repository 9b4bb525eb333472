#include "forerun/methods/diffuspec/diffuspec_drafter.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/choose_precision.h"
#include "forerun/api/diffuspec_options.h"
#include "forerun/api/drafter_method.h"
#include "forerun/api/load_diffusion_model.h"
#include "forerun/api/model_file.h"
#include "forerun/api/model_impl.h"
#include "forerun/core/backoff_ngram.h"
#include "forerun/formats/arpa.h"
#include "forerun/formats/tokenizer/vocabulary.h"
#include "forerun/methods/diffuspec/diffuspec_source.h"
#include "forerun/methods/text/controlled_drafter.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/models/diffusion_lm/diffusion_file.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

struct DiffuSpecMethod final : NetworkMethod<DiffuSpecMethod> {
  bool has_laws() const override { return true; }
  bool finds() const override { return !beside.empty(); }
  std::shared_ptr<TextDrafter> make(DrafterSetup setup) const override {
    if (!setup.samples && setup.trees) {
      return std::make_shared<TreeDrafter>(make_sources(beside),
                                           std::make_unique<DiffuSpecSource>(method),
                                           std::move(setup.control), setup.max_draft);
    }
    return std::make_shared<ControlledDrafter<DiffuSpecDrafter>>(
        DiffuSpecDrafter(method), std::move(setup.control), setup.max_draft);
  }
  std::shared_ptr<const DiffuSpec> method;
};

// Null: none is named.
std::shared_ptr<const NgramLaw> load_proxy(const std::filesystem::path& path, const Model& target) {
  if (path.empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw UsageError(fmt::format("diffuspec: no ARPA file at '{}': forerun train ngram writes one",
                                 path.string()));
  }
  BackoffNgram law = load_arpa(path);
  if (law.largest() >= static_cast<Token>(target.vocab())) {
    throw UsageError(fmt::format(
        "{} has n-grams of token {}, but the vocabulary of {} ends at {}: train it on this "
        "model's answers",
        path.string(), law.largest(), target.path(), target.vocab() - 1));
  }
  return std::make_shared<const BackoffNgram>(std::move(law));
}

// Dream, LLaDA: a model with a tokenizer, which has to be the target's.
std::shared_ptr<DiffuSpec> published_drafter(const std::string& path, const DrafterLoad& load) {
  DiffusionModelFile file = load_diffusion_model(path, load.precision);
  const Tokenizer& own = impl_of(load.target).tokenizer;
  if (const auto difference = missing_of(own, file.text->tokenizer)) {
    throw UsageError(fmt::format(
        "{} cannot draft for {}: {}; a diffusion language model has to have the target's "
        "vocabulary",
        path, load.target.path(), *difference));
  }
  return std::make_shared<DiffuSpec>(std::move(file.network), load.target.vocab(),
                                     static_cast<std::int64_t>(own.vocab_size()));
}

// One that forerun train dlm made from the target.
std::shared_ptr<DiffuSpec> trained_drafter(const std::string& path, const DrafterLoad& load) {
  const DiffusionLm model = load_diffusion_lm(path, numbers_of(load.target, DecoderParts::kEnds));
  const Precision precision = text_precision(path, load.precision, cpu_features()).precision;
  return std::make_shared<DiffuSpec>(in_precision(model, precision), load.target.vocab());
}

std::shared_ptr<const DiffuSpec> load_method(const DrafterLoad& load) {
  const DiffuSpecArgument argument = parse_diffuspec(load.argument);
  const std::string& path = argument.folder;
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) {
    throw UsageError(fmt::format(
        "no drafter at '{}': give a folder of a diffusion language model (forerun train dlm), or a "
        "Dream or LLaDA model",
        path));
  }
  const c10::InferenceMode no_autograd;
  const bool trained = std::filesystem::is_directory(path, ignored) && !holds_diffusion_model(path);
  auto out = trained ? trained_drafter(path, load) : published_drafter(path, load);
  out->options = argument.options;
  // Of a text's own trigrams most are unseen, which logarithms punish.
  constexpr double kLogBesideText = 0.9, kElse = 0.5;
  const bool rare = argument.ngram.empty() && !out->options.search.linear;
  out->options.search.marginal = argument.weight.value_or(rare ? kLogBesideText : kElse);
  out->proxy = load_proxy(argument.ngram, load.target);
  const auto& end = impl_of(load.target).end_tokens;
  out->end.assign(end.begin(), end.end());
  return out;
}

}  // namespace

DrafterKind diffuspec_drafter() {
  return {
      .info = {.name = "diffuspec",
               .argument = "PATH[:OPTION=VALUE...]",
               .help = "a diffusion language model (of forerun train dlm, Dream or LLaDA): a block "
                       "of tokens in one pass, and a search for the path through them"},
      .load =
          [](const DrafterLoad& load) {
            auto method = std::make_shared<DiffuSpecMethod>();
            method->method = load_method(load);
            method->beside = load.beside;
            return method;
          },
      .reads = is_block_diffusion};
}

}  // namespace forerun
