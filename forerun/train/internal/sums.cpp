#include "forerun/train/internal/sums.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace forerun::internal {
namespace {

Figure& named(std::vector<Figure>& figures, const std::string& name) {
  const auto it =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  if (it != figures.end()) return *it;
  figures.push_back({name, 0.0, 0.0});
  return figures.back();
}

}  // namespace

void Sums::add(double loss_sum, const LossSum& part) {
  loss += loss_sum;
  weight += part.weight;
  tokens += static_cast<double>(part.tokens);
  for (const Figure& f : part.figures) {
    Figure& mine = named(figures, f.name);
    mine.numerator += f.numerator;
    mine.denominator += f.denominator;
  }
}

void Sums::add_ranks_(Ranks& ranks) {
  if (ranks.size() == 1) return;
  // A rank may have names that others lack: first all agree on the list.
  nlohmann::json names = nlohmann::json::array();
  for (const Figure& f : figures) names.push_back(f.name);
  std::vector<Figure> all;
  for (const std::string& text : ranks.gather(names.dump())) {
    for (const auto& name : nlohmann::json::parse(text)) named(all, name.get<std::string>());
  }
  for (const Figure& f : figures) named(all, f.name) = f;
  std::vector<double> values = {loss, weight, tokens, flops};
  for (const Figure& f : all) values.insert(values.end(), {f.numerator, f.denominator});
  ranks.sum_(values);
  loss = values[0], weight = values[1], tokens = values[2], flops = values[3];
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].numerator = values[4 + 2 * i];
    all[i].denominator = values[5 + 2 * i];
  }
  figures = std::move(all);
}

bool in_micro_batches(std::span<const std::size_t> items, std::size_t size,
                      const std::function<bool()>& leave,
                      const std::function<void(std::span<const std::size_t>)>& each) {
  while (!items.empty()) {
    if (leave()) return false;
    const std::size_t n = std::min(size, items.size());
    each(items.first(n));
    items = items.subspan(n);
  }
  return true;
}

}  // namespace forerun::internal
