#pragma once

#include <memory>

namespace forerun {

/// The way from a handle of the public API to what it holds, for the implementation alone.
struct Access {
  template <class Handle>
  static const typename Handle::Impl& impl(const Handle& handle) {
    return static_cast<const typename Handle::Impl&>(*handle.impl_);  // of a base, perhaps
  }
  template <class Handle>
  static typename Handle::Learned& learned(const Handle& drafter) {
    return *drafter.learned_;
  }
  template <class Handle>
  static std::shared_ptr<typename Handle::Learned> shared_learned(const Handle& drafter) {
    return drafter.learned_;
  }
  template <class Handle>
  static const typename Handle::Method* method(const Handle& drafter) {
    return drafter.method_.get();
  }
};

template <class Handle>
const typename Handle::Impl& impl_of(const Handle& handle) {
  return Access::impl(handle);
}

}  // namespace forerun
