#include "forerun/core/chain_sample.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace forerun {

ChainKey ChainSample::key_at(std::size_t position) const noexcept {
  ChainKey key{{.seed = position > resampled_position_ ? resampled_seed_ : options_.seed,
                .request = options_.request,
                .round = round_,
                .position = static_cast<std::uint32_t>(position)}};
  if (position == resampled_position_) {
    key.resampled_from = static_cast<std::uint32_t>(resampled_inner_ + 1);
    key.resampled_seed = resampled_seed_;
  }
  return key;
}

bool ChainSample::push(ChainToken token) {
  values_.push_back(token.value());
  if (options_.keep) tokens_.push_back(std::move(token));
  return !done();
}

ChainRule::ChainRule(Rule rule) : rule_(rule) {
  if (is_for_chains(rule)) return;
  throw std::invalid_argument("rule " + std::string(name_of(rule)) +
                              " is not for tokens with a diffusion head: stepwise or path (exact), "
                              "paper or code");
}

std::vector<Coupled<ChainToken>> ChainRule::couple_all(std::span<const Request> requests) const {
  std::vector<ChainTask> tasks;
  for (const Request& r : requests) {
    if (r.target.coupled != nullptr) continue;
    ChainTask task{.target = r.target.law, .key = r.key};
    if (r.draft != nullptr) {
      task.draft = &r.draft->paths[r.step];
      task.drafted_by = r.draft->laws[r.step];
    }
    tasks.push_back(task);
  }
  std::vector<Coupled<ChainToken>> coupled = rule_ == Rule::kPath    ? couple_path(tasks)
                                             : rule_ == Rule::kPaper ? couple_paper(tasks)
                                             : rule_ == Rule::kCode  ? couple_code(tasks)
                                                                     : couple_stepwise(tasks);
  if (coupled.size() == requests.size()) return coupled;
  std::vector<Coupled<ChainToken>> out;
  auto next = coupled.begin();
  for (const Request& r : requests) {
    out.push_back(r.target.coupled != nullptr ? *r.target.coupled : std::move(*next++));
  }
  return out;
}

}  // namespace forerun
