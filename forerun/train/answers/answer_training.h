#pragma once

#include <cstdint>

namespace forerun {

/// Data and loss of all training on distilled answers.
struct AnswerLossOptions {
  std::int64_t length = 1024;  ///< tokens of a document at most; the rest is left out
  double gamma = 4.0;          ///< draft k of a block counts exp(-k / gamma), the first draft 1
  double distill = 0.5;        ///< share of the loss against the target's law instead of its token
  double held_out = 0.01;      ///< share of the documents that are never trained on
};

}  // namespace forerun
