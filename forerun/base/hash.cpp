#include "forerun/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace forerun {

void Hash::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

Hash::Hash() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

Hash& Hash::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  return *this;
}

Hash& Hash::add(std::string_view text) { return add_all(text); }

std::uint64_t Hash::value() const noexcept { return XXH3_64bits_digest(state_.get()); }

std::string Hash::text() const { return fmt::format("{:016x}", value()); }

}  // namespace forerun
