#include "forerun/methods/cspd/masked_reader.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forerun/models/mar/mar_masked.h"

namespace forerun {

MaskedReader::MaskedReader(std::shared_ptr<const MaskedNetwork> network, std::int64_t steps)
    : network_(std::move(network)) {
  const std::int64_t tokens = network_->config().tokens();
  for (const std::int64_t unknown : unknown_after(tokens, steps)) {
    ends_.push_back(static_cast<std::size_t>(tokens - unknown));
  }
}

MaskedReader::Step MaskedReader::step_of(std::size_t place) const {
  const auto end = std::ranges::upper_bound(ends_, place);
  if (end == ends_.end()) throw std::out_of_range("MaskedReader: a place beyond the image");
  return {.begin = end == ends_.begin() ? 0 : *(end - 1), .end = *end};
}

std::vector<std::int64_t> MaskedReader::order(const ChainSample& sample) const {
  RngKey key = sample.key_at(0);
  key.position = UINT32_MAX;  // of no token
  return random_order(network_->config().tokens(), key);
}

std::vector<float> MaskedReader::outputs(const ChainSample& sample,
                                         std::span<const Latent* const> tokens, std::size_t first,
                                         std::size_t count, std::int64_t label) const {
  const MarConfig& c = network_->config();
  const std::vector<std::int64_t> patches = order(sample);
  const auto dim = static_cast<std::size_t>(c.dim()), hidden = static_cast<std::size_t>(c.hidden);
  std::vector<float> values(patches.size() * dim, 0.0F);
  std::vector<std::uint8_t> known(patches.size(), 0);
  std::size_t read = 0;
  std::vector<float> out;
  for (std::size_t place = first; place < first + count;) {
    const Step step = step_of(place);
    if (tokens.size() < step.begin) throw std::logic_error("MaskedReader: a token is missing");
    for (; read < step.begin; ++read) {
      const auto patch = static_cast<std::size_t>(patches[read]);
      std::copy_n(tokens[read]->data(), dim, values.data() + patch * dim);
      known[patch] = 1;
    }
    const std::vector<float> z = network_->outputs(values, known, label);
    for (; place < std::min(first + count, step.end); ++place) {
      const float* const row = z.data() + static_cast<std::size_t>(patches[place]) * hidden;
      out.insert(out.end(), row, row + hidden);
    }
  }
  return out;
}

}  // namespace forerun
