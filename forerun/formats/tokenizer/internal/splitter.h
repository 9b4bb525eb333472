#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/tokenizer/internal/regex.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// Cuts text into words by the steps of a TokenizerSpec, one after the other: each step sees a word
/// of the step before as a text of its own. Words of byte-level tokenizers stay bytes here.
class Splitter {
 public:
  /// Error: a pattern that translate_regex or PCRE2 refuses.
  static Result<Splitter> make(const std::vector<SplitStep>& steps);

  /// @param at_start  `text` begins the whole text, no special token before it (for Metaspace)
  /// @throws std::runtime_error  see Regex::matches
  std::vector<std::string> words(std::string_view text, bool at_start) const;

 private:
  struct Stage {
    SplitStep step;
    std::vector<Regex> regex;  // one or none
  };
  std::vector<Stage> stages_;
};

}  // namespace forerun::internal
