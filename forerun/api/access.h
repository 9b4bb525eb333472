#pragma once

#include "forerun/evaluate.h"
#include "forerun/image.h"
#include "forerun/text.h"

namespace forerun {

/// The way from a handle of the public API to what it holds, for the implementation alone.
struct Access {
  template <class Handle>
  static const typename Handle::Impl& impl(const Handle& handle) {
    return *handle.impl_;
  }
  static Drafter::Learned& learned(const Drafter& drafter) { return *drafter.learned_; }
  static const Drafter::Block* block(const Drafter& drafter) { return drafter.block_.get(); }
};

template <class Handle>
const typename Handle::Impl& impl_of(const Handle& handle) {
  return Access::impl(handle);
}

}  // namespace forerun
