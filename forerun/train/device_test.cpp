#include "forerun/train/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace forerun {
namespace {

TEST(Device, IsTheCpuOrAGpuByItsName) {
  EXPECT_TRUE(device_of("cpu").is_cpu());
  for (const char* name :
       {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda1", "cuda:99999999999"}) {
    EXPECT_THROW(device_of(name), std::invalid_argument) << name;
  }
}

TEST(Device, ThatIsNotThereIsRefused) {
  EXPECT_THROW(device_of("cuda:1000"), std::invalid_argument);
  if (at::hasCUDA()) {
    EXPECT_TRUE(device_of("cuda").is_cuda());
  } else {
    EXPECT_THROW(device_of("cuda"), std::invalid_argument);
  }
}

}  // namespace
}  // namespace forerun
