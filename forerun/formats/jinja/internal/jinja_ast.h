#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "forerun/formats/jinja/internal/jinja_value.h"

namespace forerun::jinja {

struct JinjaExpression;
using JinjaExpressionPtr = std::unique_ptr<JinjaExpression>;

struct JinjaCallArguments {
  std::vector<JinjaExpressionPtr> values;
  std::vector<std::pair<std::string, JinjaExpressionPtr>> named;
};

struct JinjaExpression {
  enum class Kind : std::uint8_t {
    kValue,      // value
    kName,       // name
    kList,       // parts
    kMap,        // parts: key, value, key, value, ...
    kAttribute,  // parts[0].name
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], null where left out
    kCall,       // parts[0](arguments)
    kFilter,     // parts[0] | name(arguments)
    kTest,       // parts[0] is name(arguments); negated: is not
    kNot,        // not parts[0]
    kUnary,      // name parts[0]
    kBinary,     // parts[0] name parts[1]; "and" and "or" too
    kCompare,    // parts[0] names[0] parts[1] names[1] parts[2] ...
    kChoice      // parts[0] if parts[1] else parts[2], null where left out
  };
  Kind kind;
  std::size_t line = 0;
  JinjaValue value = {};
  std::string name = {};
  std::vector<std::string> names = {};
  std::vector<JinjaExpressionPtr> parts = {};
  JinjaCallArguments arguments = {};
  bool negated = false;
  std::size_t depth = 1;  // expressions inside each other: they are freed recursively
};

struct JinjaStatement;
using JinjaStatements = std::vector<JinjaStatement>;

struct JinjaStatement {
  enum class Kind : std::uint8_t {
    kText,    // text
    kOutput,  // {{ value }}
    kIf,      // value: body, else otherwise
    kFor,     // for names in value if condition: body, else otherwise
    kSet,     // names = value, or text.names[0] = value; without a value the body's text
    kMacro,   // macro text(names = defaults): body
    kFilter,  // value, of the body's text as the variable kFiltered
    kBreak,
    kContinue
  };
  Kind kind;
  std::size_t line = 0;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<JinjaExpressionPtr> defaults = {};  // of a macro's arguments; null: none
  JinjaExpressionPtr value = nullptr, condition = nullptr;
  JinjaStatements body = {}, otherwise = {};
};

/// The variable that a filter block works on; no template can name it.
inline constexpr const char* kFiltered = "the body of a filter block";

/// What a template holds.
struct JinjaBody {
  JinjaStatements statements;
  std::set<std::string, std::less<>> words;  // of its code
};

/// A piece of a template: text, or a word, number, string or sign within marks.
struct JinjaToken {
  enum class Kind : std::uint8_t {
    kText,
    kOpenBlock,
    kCloseBlock,
    kOpenOutput,
    kCloseOutput,
    kWord,
    kInteger,
    kFloat,
    kString,
    kSign,
    kEnd
  };
  Kind kind;
  std::string text;
  std::size_t line;
};

/// Cuts a template into tokens, with white space as `trim_blocks` and `lstrip_blocks` leave it.
/// @throws JinjaError
std::vector<JinjaToken> jinja_tokens(std::string_view text);

/// @throws JinjaError
JinjaBody parse_jinja_tokens(std::vector<JinjaToken> tokens);

bool is_jinja_filter(std::string_view name);
bool is_jinja_test(std::string_view name);

}  // namespace forerun::jinja
