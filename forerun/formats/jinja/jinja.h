#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/formats/marked_text.h"

namespace forerun {

namespace jinja {
struct JinjaBody;
}

/// What a rendering may take: templates come from files that were downloaded from anywhere.
struct JinjaLimits {
  std::size_t steps = 2'000'000;              ///< statements and operations
  std::size_t bytes = std::size_t{64} << 20;  ///< of all strings and lists that it makes
  std::size_t depth = 64;                     ///< of macros and loops inside each other
};

struct JinjaOptions {
  JinjaLimits limits;
  /// Seconds since 1970 on the clock that strftime_now reads (UTC, or with the place's offset
  /// added); without it the function is not defined.
  std::optional<std::int64_t> now;
};

/// A template in the part of Jinja 2 that chat templates use, as Hugging Face's transformers
/// renders it: trim_blocks and lstrip_blocks, loop controls, raise_exception, strftime_now, and
/// tojson that keeps characters and order. Changes no values that it was given. May be rendered
/// from several threads.
class JinjaTemplate {
 public:
  /// Errors: wrong syntax, and what this part lacks (include, import, call blocks, recursive loops,
  /// filters and tests of other names); the message gives the line.
  static Result<JinjaTemplate> parse(std::string_view text);
  /// @param given  an object: the variables. Where their texts stand in the result is marked,
  ///               whatever the template did with them, save a "role" of one word: templates build
  ///               their own marks from it ("<|user|>")
  /// @param own    further variables, whose texts count as the template's; an object
  /// Errors: what Jinja raises, raise_exception's message, a limit.
  Result<MarkedText> render(const nlohmann::ordered_json& given, const nlohmann::ordered_json& own,
                            const JinjaOptions& options = {}) const;
  /// The template's code has this word: it knows a variable of this name, say.
  bool mentions(std::string_view word) const;

 private:
  explicit JinjaTemplate(std::shared_ptr<const jinja::JinjaBody> body) : body_(std::move(body)) {}
  std::shared_ptr<const jinja::JinjaBody> body_;
};

}  // namespace forerun
