#pragma once

#include <cstdint>
#include <span>

#include "forerun/core/philox.h"

namespace forerun {

/// The use of a random number; two uses never share a number.
enum class Purpose : std::uint8_t {
  kDraft,        ///< the drafter's own sampling
  kAccept,       ///< keep or reject a drafted value
  kResidual,     ///< the value drawn after a rejection
  kTarget,       ///< a value drawn from the target's conditional (bonus, match); independent of the
                 ///< round
  kSharedNoise,  ///< the noise that decides an output under shared-noise; independent of the round
  kCertificate,  ///< the randomisation of a certificate
};

/// The random numbers of one position: a pure function of (seed, request, round, position, substep,
/// purpose, index), so a result depends neither on the batch nor on threads. The round is part of
/// the key where drafts are drawn and judged, because a discarded draft may affect the next draft
/// length: reusing its number would bias the output. Outputs that the target alone decides
/// (kTarget, kSharedNoise) leave the round out: their number is used once, when the output is
/// decided, and does not depend on how the text was cut into rounds. So with deterministic drafts
/// the text is that of plain decoding, at any temperature. A value: copying it is free.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint32_t request = 0;   ///< which generation; by id and not by batch slot
  std::uint32_t round = 0;     ///< target pass within the request
  std::uint32_t position = 0;  ///< index of the output within its sequence, prompt included
  /// Below 2^12: the step within an output that is made in several. A draw with a substep above 0
  /// has 2^16 words of each purpose.
  std::uint32_t substep = 0;

  /// Four words; `index` < 2^28 separates draws of one purpose.
  constexpr std::array<std::uint32_t, 4> words(Purpose purpose,
                                               std::uint32_t index = 0) const noexcept {
    return philox4x32(counter(purpose, index), philox_key());
  }
  /// Uniform on [0, 1), 53 bits.
  constexpr double uniform(Purpose purpose, std::uint32_t index = 0) const noexcept {
    const auto w = words(purpose, index);
    return unit(w[0], w[1]);
  }
  /// Fills `out` with standard normals (Box-Muller in double, rounded to float).
  void fill_normal(Purpose purpose, std::span<float> out) const noexcept;

  constexpr std::array<std::uint32_t, 4> counter(Purpose purpose,
                                                 std::uint32_t index) const noexcept {
    const bool by_target = purpose == Purpose::kSharedNoise || purpose == Purpose::kTarget;
    const std::uint32_t r = by_target ? 0 : round;
    return {static_cast<std::uint32_t>(purpose) << 28 | substep << 16 | index, position, r,
            request};
  }
  constexpr std::array<std::uint32_t, 2> philox_key() const noexcept {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  static constexpr double unit(std::uint32_t high, std::uint32_t low) noexcept {
    return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  }
};

}  // namespace forerun
