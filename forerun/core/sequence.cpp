#include "forerun/core/sequence.h"

#include "forerun/core/rng_key.h"

namespace forerun {

RngKey TokenSequence::key() const noexcept { return key_at(tokens_.size()); }

RngKey TokenSequence::key_at(std::size_t position) const noexcept {
  return {seed_, request_, round_, static_cast<std::uint32_t>(position)};
}

}  // namespace forerun
