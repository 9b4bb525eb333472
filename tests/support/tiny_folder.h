#pragma once

#include <string>

namespace forerun {

inline const std::string kTiny = FORERUN_SOURCE_DIR "/tests/data/tiny/";  ///< of random models

}  // namespace forerun
