#include "forerun/core/chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>

#include "forerun/core/tests_of_fit.h"

namespace forerun {

RngKey ChainKey::at(std::size_t which) const noexcept {
  RngKey out = *this;
  out.substep = static_cast<std::uint32_t>(which);
  if (out.substep >= resampled_from) out.seed = resampled_seed;
  return out;
}

Latent ChainKey::start(std::size_t dim) const {
  Latent out(dim);
  at(0).fill_normal(Purpose::kTarget, out);
  return out;
}

namespace {

std::size_t steps_of(const ChainLaw& law) { return law.model->sigmas().size(); }

// Rows of one model, and the means they get.
class Rows {
 public:
  // Returns the row's number.
  std::size_t add(const ChainLaw& law, std::size_t step, const Latent& state) {
    model_ = law.model;
    rows_.push_back({law.token, step, &state});
    return rows_.size() - 1;
  }
  std::vector<Latent> means() const {
    return rows_.empty() ? std::vector<Latent>() : model_->means(rows_);
  }

 private:
  ChainModel* model_ = nullptr;
  std::vector<ChainRow> rows_;
};

// The target's means along given paths, all steps of all paths in one call.
std::vector<std::vector<Latent>> means_along(std::span<const ChainLaw> laws,
                                             std::span<const ChainPath* const> paths) {
  Rows rows;
  for (std::size_t i = 0; i < laws.size(); ++i) {
    for (std::size_t k = 0; k < steps_of(laws[i]); ++k) rows.add(laws[i], k, paths[i]->states[k]);
  }
  std::vector<Latent> all = rows.means();
  std::vector<std::vector<Latent>> out;
  auto next = std::make_move_iterator(all.begin());
  for (const ChainLaw& law : laws) {
    const auto end = next + static_cast<std::ptrdiff_t>(steps_of(law));
    out.emplace_back(next, end);
    next = end;
  }
  return out;
}

void check(const ChainTask& task, bool same_sigmas) {
  const auto target = task.target.model->sigmas();
  const auto draft = task.drafted_by.model->sigmas();
  if (task.draft->states.size() != target.size() + 1 || task.draft->means.size() != target.size() ||
      task.drafted_by.model->dim() != task.target.model->dim() || draft.size() != target.size()) {
    throw std::invalid_argument(
        "couple: the draft's chain has other inner steps or dimensions than the target's: draw "
        "both with one schedule");
  }
  if (same_sigmas && !std::equal(target.begin(), target.end(), draft.begin())) {
    throw std::invalid_argument(
        "couple: an exact rule needs one set of standard deviations: draw the draft with the "
        "target's");
  }
}

// Runs chains side by side. `own(i)`: the mean that the model gives is needed at this step; `next`
// receives the mean, or nothing.
void walk(std::span<const ChainLaw> laws, std::span<ChainPath> paths,
          const std::function<bool(std::size_t, std::size_t)>& own,
          const std::function<void(std::size_t, std::size_t, Latent*)>& next) {
  std::size_t steps = 0;
  for (const ChainLaw& law : laws) steps = std::max(steps, steps_of(law));
  for (std::size_t k = 0; k < steps; ++k) {
    Rows rows;
    for (std::size_t i = 0; i < laws.size(); ++i) {
      if (own(i, k)) rows.add(laws[i], k, paths[i].states[k]);
    }
    std::vector<Latent> means = rows.means();
    std::size_t row = 0;
    for (std::size_t i = 0; i < laws.size(); ++i) next(i, k, own(i, k) ? &means[row++] : nullptr);
  }
}

ChainPath begun(const ChainLaw& law, const ChainKey& key) {
  ChainPath out;
  out.states.push_back(key.start(law.model->dim()));
  return out;
}

void extend(ChainPath& path, Latent mean, Latent state) {
  path.means.push_back(std::move(mean));
  path.states.push_back(std::move(state));
}

std::vector<ChainLaw> laws_of(std::span<const FreeChain> chains) {
  std::vector<ChainLaw> out;
  for (const FreeChain& c : chains) out.push_back(c.law);
  return out;
}

}  // namespace

std::vector<ChainPath> draw_chains(std::span<const FreeChain> chains) {
  const std::vector<ChainLaw> laws = laws_of(chains);
  std::vector<ChainPath> out;
  for (const FreeChain& c : chains) out.push_back(begun(c.law, c.key));
  walk(
      laws, out, [](std::size_t, std::size_t) { return true; },
      [&](std::size_t i, std::size_t k, Latent* mean) {
        const Gaussian law{*mean, laws[i].model->sigmas()[k]};
        Latent state = chains[i].key.draw(law, k, chains[i].noise);
        extend(out[i], std::move(*mean), std::move(state));
      });
  return out;
}

std::vector<Coupled<ChainToken>> couple_stepwise(std::span<const ChainTask> tasks) {
  std::vector<ChainLaw> laws, drafted;
  std::vector<const ChainPath*> drafts;
  std::vector<ChainPath> paths;
  for (const ChainTask& task : tasks) {
    laws.push_back(task.target);
    paths.push_back(begun(task.target, task.key));
    if (task.draft == nullptr) continue;
    check(task, true);
    // A draft that starts elsewhere is not together with the target's chain.
    drafted.push_back(task.target);
    drafts.push_back(task.draft);
  }
  std::vector<std::vector<Latent>> along = means_along(drafted, drafts);

  struct State {
    std::vector<Latent>* along = nullptr;  // the target's means at the draft's states
    bool together = false;
  };
  std::vector<State> states(tasks.size());
  std::vector<Coupled<ChainToken>> out(tasks.size());
  for (std::size_t i = 0, at = 0; i < tasks.size(); ++i) {
    if (tasks[i].draft == nullptr) continue;
    states[i] = {&along[at++], tasks[i].draft->states.front() == paths[i].states.front()};
    out[i].value.draft_means = tasks[i].draft->means;
  }
  walk(
      laws, paths, [&](std::size_t i, std::size_t) { return !states[i].together; },
      [&](std::size_t i, std::size_t k, Latent* mean) {
        const ChainTask& task = tasks[i];
        State& s = states[i];
        Latent own = s.together ? (*s.along)[k] : std::move(*mean);
        const Gaussian target{own, laws[i].model->sigmas()[k]};
        if (task.draft == nullptr) {
          Latent state = task.key.draw(target, k, Purpose::kTarget);
          extend(paths[i], std::move(own), std::move(state));
          return;
        }
        auto step = couple(target, {task.draft->means[k], target.sigma}, task.draft->states[k + 1],
                           task.key.at(k + 1));
        extend(paths[i], std::move(own), std::move(step.value));
        s.together = step.accepted;
        out[i].value.together.push_back(step.accepted ? 1 : 0);
      });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    out[i].value.path = std::move(paths[i]);
    out[i].accepted = states[i].together;
  }
  return out;
}

double together_probability(const Gaussian& target, std::span<const float> draft_mean) noexcept {
  double square = 0.0;
  for (std::size_t i = 0; i < draft_mean.size(); ++i) {
    const double d = static_cast<double>(draft_mean[i]) - static_cast<double>(target.mean[i]);
    square += d * d;
  }
  const double keeps = 2.0 * normal_cdf(-0.5 * std::sqrt(square) / target.sigma);
  return std::isnan(keeps) ? 0.0 : keeps;
}

namespace {

// A task without a draft, as every rule draws it.
std::vector<Coupled<ChainToken>> drawn(std::span<const ChainTask> tasks) {
  std::vector<FreeChain> chains;
  for (const ChainTask& task : tasks) chains.push_back({task.target, task.key, Purpose::kTarget});
  std::vector<Coupled<ChainToken>> out;
  for (ChainPath& path : draw_chains(chains)) out.push_back({{.path = std::move(path)}, false});
  return out;
}

// Splits off the tasks without a draft; `rule` couples the others.
std::vector<Coupled<ChainToken>> split(
    std::span<const ChainTask> tasks,
    const std::function<std::vector<Coupled<ChainToken>>(std::span<const ChainTask>)>& rule) {
  std::vector<ChainTask> drafted, free;
  for (const ChainTask& task : tasks) (task.draft != nullptr ? drafted : free).push_back(task);
  std::vector<Coupled<ChainToken>> coupled = rule(drafted), plain = drawn(free), out;
  auto next = coupled.begin(), other = plain.begin();
  for (const ChainTask& task : tasks) {
    out.push_back(std::move(task.draft != nullptr ? *next++ : *other++));
  }
  return out;
}

// log dP/dQ of a path, with the means of both along it.
double log_ratio(const ChainPath& path, std::span<const Latent> target,
                 std::span<const Latent> draft, std::span<const double> sigmas) {
  double sum = 0.0;
  for (std::size_t k = 0; k < target.size(); ++k) {
    sum +=
        gaussian_step({target[k], sigmas[k]}, {draft[k], sigmas[k]}, path.states[k + 1]).log_ratio;
  }
  return sum;
}

// The key of the path drawn at this attempt: rounds are counted below 2^16.
ChainKey attempt_key(ChainKey key, std::uint32_t attempt) {
  constexpr std::uint32_t kMost = 1U << 16;
  if (attempt >= kMost) {
    throw std::runtime_error(
        "path: 65,535 paths were drawn after one rejection and none was kept; the draft's law is "
        "the target's up to rounding: use --rule stepwise");
  }
  key.round = attempt << 16 | (key.round & (kMost - 1));
  return key;
}

// Draws paths until one is kept, for tasks whose drafts were rejected. The number drawn at a time
// doubles: a long search is rare, and cheaper side by side.
void draw_residuals(std::span<const ChainTask> tasks, std::vector<std::size_t> left,
                    std::vector<Coupled<ChainToken>>& out) {
  constexpr std::uint32_t kMostAtATime = 64;
  for (std::uint32_t first = 1, n = 1; !left.empty();
       first += n, n = std::min(2 * n, kMostAtATime)) {
    std::vector<FreeChain> chains;
    for (const std::size_t i : left) {
      for (std::uint32_t a = first; a < first + n; ++a) {
        chains.push_back({tasks[i].target, attempt_key(tasks[i].key, a), Purpose::kResidual});
      }
    }
    std::vector<ChainPath> paths = draw_chains(chains);
    std::vector<ChainLaw> laws;
    std::vector<const ChainPath*> pointers;
    for (std::size_t j = 0; j < paths.size(); ++j) {
      laws.push_back(tasks[left[j / n]].drafted_by);
      pointers.push_back(&paths[j]);
    }
    std::vector<std::vector<Latent>> draft = means_along(laws, pointers);
    std::vector<std::size_t> rest;
    for (std::size_t at = 0; at < left.size(); ++at) {
      const std::size_t i = left[at];
      bool kept = false;
      for (std::size_t j = at * n; j < (at + 1) * n && !kept; ++j) {
        ChainToken& token = out[i].value;
        ++token.proposals;
        const double ratio =
            log_ratio(paths[j], paths[j].means, draft[j], tasks[i].target.model->sigmas());
        const double u = chains[j].key.at(0).uniform(Purpose::kAccept);
        // No ratio: the draft cannot be kept on such a path, so nothing is taken off its mass.
        kept = !std::isfinite(ratio) || u < -std::expm1(-ratio);
        if (!kept) continue;
        token.path = std::move(paths[j]);
        token.draft_means = std::move(draft[j]);
      }
      if (!kept) rest.push_back(i);
    }
    left = std::move(rest);
  }
}

}  // namespace

std::vector<Coupled<ChainToken>> couple_path(std::span<const ChainTask> all) {
  return split(all, [](std::span<const ChainTask> tasks) {
    std::vector<ChainLaw> laws;
    std::vector<const ChainPath*> drafts;
    for (const ChainTask& task : tasks) {
      check(task, true);
      if (task.draft->states.front() != task.key.start(task.target.model->dim())) {
        throw std::invalid_argument("path: the draft's chain begins elsewhere than the token's");
      }
      laws.push_back(task.target);
      drafts.push_back(task.draft);
    }
    std::vector<std::vector<Latent>> means = means_along(laws, drafts);
    std::vector<Coupled<ChainToken>> out(tasks.size());
    std::vector<std::size_t> rejected;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const ChainTask& task = tasks[i];
      const double ratio =
          log_ratio(*task.draft, means[i], task.draft->means, task.target.model->sigmas());
      // NaN compares false: a broken target is never accepted silently.
      out[i].accepted = std::log(task.key.at(0).uniform(Purpose::kAccept)) < ratio;
      if (!out[i].accepted) {
        rejected.push_back(i);
        continue;
      }
      out[i].value = {.path = {task.draft->states, std::move(means[i])},
                      .draft_means = task.draft->means};
    }
    draw_residuals(tasks, std::move(rejected), out);
    for (Coupled<ChainToken>& one : out) {
      one.value.together.assign(one.value.path.means.size(), one.accepted ? 1 : 0);
    }
    return out;
  });
}

namespace {

double log_density(std::span<const float> x, std::span<const float> mean, double sigma) {
  double square = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(mean[i]);
    square += d * d;
  }
  return -0.5 * square / (sigma * sigma) - static_cast<double>(x.size()) * std::log(sigma);
}

// How the published rules differ.
struct Published {
  double sign;         // of log S
  double temperature;  // of the accepting ratio's standard deviations
  std::uint32_t draws;
};

// The last inner step of an aligned chain.
Coupled<Latent> last_step(const ChainTask& task, const Latent& mean, const Published& rule) {
  const auto sigmas = task.target.model->sigmas(), drafted = task.drafted_by.model->sigmas();
  const std::size_t last = sigmas.size() - 1;
  double s = 0.0;
  for (std::size_t k = 0; k < last; ++k) s += std::log(drafted[k] / sigmas[k]);
  s *= rule.sign * static_cast<double>(mean.size());
  const Latent& other = task.draft->means[last];
  const auto ratio = [&](const Latent& x, double temperature) {
    return s + log_density(x, mean, temperature * sigmas[last]) -
           log_density(x, other, temperature * drafted[last]);
  };
  const Latent& y = task.draft->value();
  const RngKey key = task.key.at(last + 1);
  if (std::log(key.uniform(Purpose::kAccept)) < ratio(y, rule.temperature)) return {y, true};
  for (std::uint32_t a = 1; a <= rule.draws; ++a) {
    const RngKey again = attempt_key(task.key, a).at(last + 1);
    Latent x = Gaussian{mean, sigmas[last]}.sample(Purpose::kResidual, again);
    if (again.uniform(Purpose::kAccept) < -std::expm1(-ratio(x, 1.0))) return {std::move(x), false};
  }
  return {Latent(mean.size(), 0.0F), false};
}

std::vector<Coupled<ChainToken>> couple_published(std::span<const ChainTask> all,
                                                  const Published& rule) {
  return split(all, [&](std::span<const ChainTask> tasks) {
    for (const ChainTask& task : tasks) check(task, false);
    std::vector<Coupled<ChainToken>> out = drawn(tasks);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      ChainToken& token = out[i].value;
      auto last = last_step(tasks[i], token.path.means.back(), rule);
      token.path.states.back() = std::move(last.value);
      // The steps before the last are the target's own.
      token.draft_means.assign(token.path.means.size(), Latent());
      token.draft_means.back() = tasks[i].draft->means.back();
      token.together.assign(token.path.means.size(), 0);
      token.together.back() = last.accepted ? 1 : 0;
      out[i].accepted = last.accepted;
    }
    return out;
  });
}

}  // namespace

std::vector<Coupled<ChainToken>> couple_paper(std::span<const ChainTask> tasks) {
  // The paper draws until one is kept; where S is so small that none ever is, something must end.
  return couple_published(tasks, {.sign = 1.0, .temperature = 1.0, .draws = 10000});
}

std::vector<Coupled<ChainToken>> couple_code(std::span<const ChainTask> tasks) {
  return couple_published(tasks, {.sign = -1.0, .temperature = 42.0, .draws = 100});
}

}  // namespace forerun
