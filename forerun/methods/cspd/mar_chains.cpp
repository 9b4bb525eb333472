#include "forerun/methods/cspd/mar_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace forerun {

MarChains::MarChains(Setting setting) : setting_(std::move(setting)) {
  const MarHead& head = *setting_.head;
  if (setting_.sigmas.empty()) {
    for (std::int64_t k = 0; k < head.transitions(); ++k) setting_.sigmas.push_back(head.sigma(k));
  }
  if (std::ranges::all_of(setting_.sigmas, [](double s) { return s > 0.0; })) return;
  throw std::invalid_argument(
      "the last inner step adds no noise, so a token has no density and no drafted token could be "
      "kept: sample with final step truncate or noisy");
}

MarChains::Caches& MarChains::caches_of(const ChainSample& sample) {
  const auto found = caches_.find(sample.id());
  if (found != caches_.end()) return found->second;
  const MarNetwork& network = *setting_.network;
  Caches made{network.cache(sample.label()), std::nullopt};
  if (setting_.guidance.on()) made.without = network.cache(network.config().classes);
  return caches_.emplace(sample.id(), std::move(made)).first->second;
}

std::vector<MarChains::Conditions> MarChains::read_causal(std::span<const Reading> readings) {
  const std::size_t dimension = dim(), halves = setting_.guidance.on() ? 2 : 1;
  // Both halves read the same tokens.
  std::vector<std::vector<float>> tokens;
  std::vector<MarNetwork::Rows> rows;
  tokens.reserve(readings.size());
  for (const Reading& r : readings) {
    const MarCache& cache = caches_of(*r.sample).with_class;
    const std::size_t made = r.sample->step(), all = made + r.more.size();
    // The conditions come from rows that are read now: where too few are new, the last again.
    if (!cache.empty() && r.laws <= all) keep(*r.sample, all - r.laws);
    const auto have = static_cast<std::size_t>(cache.tokens());
    std::vector<float>& own = tokens.emplace_back();
    for (std::size_t i = have; i < made + r.more.size(); ++i) {
      const Latent& token = i < made ? r.sample->values()[i] : *r.more[i - made];
      own.insert(own.end(), token.begin(), token.end());
    }
  }
  for (std::size_t half = 0; half < halves; ++half) {
    for (std::size_t i = 0; i < readings.size(); ++i) {
      Caches& caches = caches_of(*readings[i].sample);
      rows.push_back({half == 0 ? &caches.with_class : &*caches.without, tokens[i]});
    }
  }
  std::vector<std::size_t> count;  // conditions of a sequence
  for (std::size_t i = 0; i < readings.size(); ++i) {
    count.push_back(tokens[i].size() / dimension + (rows[i].cache->empty() ? 1 : 0));
  }
  const std::vector<float> all = setting_.network->conditions(rows);
  const auto width = static_cast<std::size_t>(setting_.network->condition_width());
  const std::size_t half = halves == 1 ? 0 : all.size() / 2;  // floats of one

  std::vector<Conditions> out;
  std::size_t first = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const std::size_t laws = readings[i].laws;
    if (count[i] < laws) {
      throw std::logic_error(
          fmt::format("MarChains: {} conditions wanted of {} tokens", laws, count[i]));
    }
    first += count[i];
    const float* const with = all.data() + (first - laws) * width;
    Conditions& own = out.emplace_back(Conditions{{with, with + laws * width}, {}});
    if (halves == 2) own.without.assign(with + half, with + half + laws * width);
  }
  return out;
}

std::vector<MarChains::Conditions> MarChains::read_masked(std::span<const Reading> readings) const {
  std::vector<Conditions> out;
  for (const Reading& r : readings) {
    std::vector<const Latent*> tokens;
    for (const Latent& token : r.sample->values()) tokens.push_back(&token);
    tokens.insert(tokens.end(), r.more.begin(), r.more.end());
    const std::size_t first = tokens.size() + 1 - r.laws;
    const auto of = [&](std::int64_t label) {
      return setting_.network->conditions_of(
          setting_.masked->outputs(*r.sample, tokens, first, r.laws, label));
    };
    Conditions& own = out.emplace_back(Conditions{of(r.sample->label()), {}});
    if (setting_.guidance.on()) own.without = of(setting_.network->config().classes);
  }
  return out;
}

double MarChains::guidance_at(std::size_t place, std::size_t tokens) const {
  if (!setting_.masked) return setting_.guidance.at(place, tokens);
  // As published: by what is known after the token's step, the last token excepted.
  const std::size_t known = std::min(setting_.masked->step_of(place).end, tokens - 1);
  return setting_.guidance.at(std::max<std::size_t>(known, 1) - 1, tokens);
}

std::vector<std::vector<ChainLaw>> MarChains::read(std::span<const Reading> readings) {
  ++passes_;
  const std::vector<Conditions> conditions =
      setting_.masked ? read_masked(readings) : read_causal(readings);
  const auto width = static_cast<std::size_t>(setting_.network->condition_width());
  std::vector<MarHead::Input> inputs;
  std::vector<std::vector<ChainLaw>> out;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const Reading& r = readings[i];
    const Conditions& c = conditions[i];
    std::vector<ChainLaw>& laws = out.emplace_back();
    const std::size_t first = r.sample->step() + r.more.size() + 1 - r.laws;
    for (std::size_t j = 0; j < r.laws; ++j) {
      const float* const with = c.with.data() + j * width;
      const float* const without = c.without.empty() ? nullptr : c.without.data() + j * width;
      inputs.push_back({.condition = with,
                        .null_condition = without,
                        .guidance = guidance_at(first + j, r.sample->steps())});
      laws.push_back({this, raw_.size()});
      std::vector<float>& raw = raw_.emplace_back(with, with + width);
      if (without != nullptr) raw.insert(raw.end(), without, without + width);
    }
  }
  for (MarCondition& c : setting_.head->prepare(inputs)) conditions_.push_back(std::move(c));
  return out;
}

MarConfig MarChains::config_of(const ChainSample& sample) const {
  MarConfig out = setting_.network->config();
  if (setting_.masked) out.order = setting_.masked->order(sample);
  return out;
}

void MarChains::forget_laws() {
  conditions_.clear();
  raw_.clear();
}

void MarChains::keep(const ChainSample& sample, std::size_t tokens) {
  if (setting_.masked) return;  // it reads all known tokens in every pass
  Caches& caches = caches_of(sample);
  const auto most = static_cast<std::int64_t>(tokens);
  for (MarCache* cache : {&caches.with_class, caches.without ? &*caches.without : nullptr}) {
    if (cache != nullptr && cache->tokens() > most) cache->truncate(most);
  }
}

std::vector<Latent> MarChains::means(std::span<const ChainRow> rows) {
  std::vector<MarHead::Row> asked;
  asked.reserve(rows.size());
  for (const ChainRow& r : rows) {
    asked.push_back({&conditions_[r.token], r.state->data(), static_cast<std::int64_t>(r.step)});
  }
  ++calls_;
  head_rows_ += rows.size();
  const std::vector<float> all = setting_.head->means(asked);
  const auto dimension = static_cast<std::ptrdiff_t>(dim());
  std::vector<Latent> out;
  out.reserve(rows.size());
  for (auto at = all.begin(); at != all.end(); at += dimension)
    out.emplace_back(at, at + dimension);
  return out;
}

std::vector<std::vector<Latent>> means_along_tokens(MarChains& model, const ChainSample& sample) {
  const std::vector<ChainToken>& tokens = sample.tokens();
  std::vector<std::vector<Latent>> out;
  if (tokens.empty()) return out;
  model.forget_laws();
  // A sample without tokens of its own: all are read at once.
  const ChainSample fresh({.seed = sample.key_at(0).seed,
                           .request = sample.request(),
                           .tokens = sample.steps(),
                           .label = sample.label(),
                           .id = 0});
  MarChains::Reading reading{.sample = &fresh, .more = {}, .laws = tokens.size()};
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) reading.more.push_back(&tokens[i].value());
  const std::vector<ChainLaw> laws = model.read({&reading, 1}).front();
  model.forget(fresh.id());
  const std::size_t steps = model.sigmas().size();
  std::vector<ChainRow> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (std::size_t k = 0; k < steps; ++k) {
      rows.push_back({laws[i].token, k, &tokens[i].path.states[k]});
    }
  }
  std::vector<Latent> means = model.means(rows);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto first = means.begin() + static_cast<std::ptrdiff_t>(i * steps);
    out.emplace_back(std::make_move_iterator(first),
                     std::make_move_iterator(first + static_cast<std::ptrdiff_t>(steps)));
  }
  return out;
}

std::vector<double> own_sigmas(MarChains& draft, std::span<const double> target,
                               std::span<const ChainSample* const> samples) {
  std::vector<double> squares(target.size(), 0.0);
  double numbers = 0.0;  // of a step
  for (const ChainSample* sample : samples) {
    const auto means = means_along_tokens(draft, *sample);
    for (std::size_t i = 0; i < means.size(); ++i) {
      for (std::size_t k = 0; k < target.size(); ++k) {
        const Latent& own = sample->tokens()[i].path.means[k];
        for (std::size_t j = 0; j < own.size(); ++j) {
          const double d = static_cast<double>(means[i][k][j]) - static_cast<double>(own[j]);
          squares[k] += d * d;
        }
      }
      numbers += static_cast<double>(draft.dim());
    }
  }
  std::vector<double> out;
  for (std::size_t k = 0; k < target.size(); ++k) {
    out.push_back(std::sqrt(target[k] * target[k] + (numbers > 0.0 ? squares[k] / numbers : 0.0)));
  }
  return out;
}

}  // namespace forerun
