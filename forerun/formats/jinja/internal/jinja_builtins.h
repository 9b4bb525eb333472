#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/formats/jinja/internal/jinja_value.h"

namespace forerun::jinja {

/// value | name(arguments). `map`, `select` and their kin call filters and tests themselves.
/// @throws JinjaError
JinjaValue apply_jinja_filter(std::string_view name, const JinjaValue& value,
                              const JinjaArguments& arguments);
/// value is name(arguments). @throws JinjaError
bool apply_jinja_test(std::string_view name, const JinjaValue& value,
                      const JinjaArguments& arguments);
/// A method of a text or a dict; undefined: it has none of that name.
JinjaValue jinja_method(const JinjaValue& of, const std::string& name);
/// of[key]; undefined: there is none. @throws JinjaError  a key of a wrong type
JinjaValue jinja_item(const JinjaValue& of, const JinjaValue& key);

/// a + b and so on, as Python computes them. @throws JinjaError
JinjaValue jinja_arithmetic(const std::string& sign, const JinjaValue& a, const JinjaValue& b);

/// range, namespace, dict, raise_exception, and strftime_now if the time is known.
/// @param now  as JinjaOptions
std::map<std::string, JinjaValue> jinja_functions(std::optional<std::int64_t> now);

/// As Python's str.strip, lstrip and rstrip. @param chars  nullptr: white space
JinjaText jinja_stripped(const JinjaText& text, const JinjaText* chars, bool left, bool right);
/// Every occurrence, or the first `most`.
JinjaText jinja_replaced(const JinjaText& text, const JinjaText& from, const JinjaText& to,
                         std::int64_t most = -1);

}  // namespace forerun::jinja
