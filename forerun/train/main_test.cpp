// The test program also is the program that some tests start: it then trains instead of testing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/train_worker.h"

int main(int argc, char** argv) {
  if (const char* asked = std::getenv(forerun::testing::kWorker)) {
    return forerun::testing::train_as_asked(nlohmann::json::parse(asked));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
