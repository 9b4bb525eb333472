// Tests.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "forerun/formats/jinja/internal/jinja_ast.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

using Value = JinjaValue;
using Arguments = JinjaArguments;
using Test = bool (*)(const Value&, const Arguments&);

bool is_after(std::string_view filter, const Value& v) {
  return apply_jinja_filter(filter, v, {}).text() == v.text();
}

bool contains(const Value& all, const Value& v) {
  if (all.is_string()) {
    if (!v.is_string()) throw JinjaError(fmt::format("{} is no part of a text", v.type()));
    return all.string()->bytes().find(v.string()->bytes()) != std::string::npos;
  }
  if (all.is_map()) return v.is_string() && all.map()->find(v.string()->bytes()) != nullptr;
  if (all.is_undefined()) return false;
  if (!all.is_list()) throw JinjaError(fmt::format("{} holds nothing", all.type()));
  return std::find(all.list()->begin(), all.list()->end(), v) != all.list()->end();
}

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> all = {
      {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
      {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
      {"string", [](const Value& v, const Arguments&) { return v.is_string(); }},
      {"mapping", [](const Value& v, const Arguments&) { return v.is_map(); }},
      {"iterable",
       [](const Value& v, const Arguments&) {
         return v.is_string() || v.is_list() || v.is_map() || v.is_undefined();
       }},
      {"sequence",
       [](const Value& v, const Arguments&) {
         return v.is_string() || v.is_list() || v.is_map() || v.is_undefined();
       }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
      {"integer", [](const Value& v, const Arguments&) { return v.is_int(); }},
      {"float", [](const Value& v, const Arguments&) { return v.is_float(); }},
      {"boolean", [](const Value& v, const Arguments&) { return v.is_bool(); }},
      {"true", [](const Value& v, const Arguments&) { return v.is_bool() && v.truthy(); }},
      {"false", [](const Value& v, const Arguments&) { return v.is_bool() && !v.truthy(); }},
      {"callable", [](const Value& v, const Arguments&) { return v.is_function(); }},
      {"odd", [](const Value& v, const Arguments&) { return v.integer() % 2 != 0; }},
      {"even", [](const Value& v, const Arguments&) { return v.integer() % 2 == 0; }},
      {"divisibleby",
       [](const Value& v, const Arguments& a) {
         const std::int64_t by = a.at(0, "num").integer();
         if (by == 0) throw JinjaError("divided by zero");
         return by == -1 || v.integer() % by == 0;  // INT64_MIN % -1 is not defined
       }},
      {"in", [](const Value& v, const Arguments& a) { return contains(a.at(0, "seq"), v); }},
      {"equalto", [](const Value& v, const Arguments& a) { return v == a.at(0, "other"); }},
      {"eq", [](const Value& v, const Arguments& a) { return v == a.at(0, "other"); }},
      {"ne", [](const Value& v, const Arguments& a) { return !(v == a.at(0, "other")); }},
      {"lower", [](const Value& v, const Arguments&) { return is_after("lower", v); }},
      {"upper", [](const Value& v, const Arguments&) { return is_after("upper", v); }},
  };
  return all;
}

}  // namespace

bool is_jinja_test(std::string_view name) { return tests().contains(name); }

bool apply_jinja_test(std::string_view name, const JinjaValue& value,
                      const JinjaArguments& arguments) {
  return tests().at(name)(value, arguments);
}

}  // namespace forerun::jinja
