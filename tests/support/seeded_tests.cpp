// Every test starts with the same state of libtorch's own generator, whose seed otherwise differs
// from process to process (in C++; Python sets it).
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace forerun::testing {
namespace {

class Seeds : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { at::manual_seed(0); }
};

// Before main, which is googletest's; it takes ownership.
[[maybe_unused]] const bool kSeeded = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Seeds);
  return true;
}();

}  // namespace
}  // namespace forerun::testing
