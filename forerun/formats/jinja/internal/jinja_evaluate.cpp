// Expressions.

#include "forerun/formats/jinja/internal/jinja_evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "forerun/base/quote.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

using Of = JinjaExpression::Kind;

}  // namespace

void JinjaRun::looks(const JinjaValue& v) { takes(v.weight() / 16); }

JinjaValue JinjaRun::value(const JinjaExpression& e, JinjaScope& scope) {
  step(e.line);
  const Nested nested(*this);
  JinjaValue out = evaluate(e, scope);
  if (e.kind != Of::kValue && e.kind != Of::kName && e.kind != Of::kAttribute &&
      e.kind != Of::kItem) {
    made(out);
  }
  return out;
}

JinjaValue JinjaRun::evaluate(const JinjaExpression& e, JinjaScope& scope) {
  const auto part = [&](std::size_t i) { return value(*e.parts[i], scope); };
  switch (e.kind) {
    case Of::kValue:
      return e.value;
    case Of::kName:
      return name(e, scope);
    case Of::kList: {
      JinjaList out;
      for (const auto& p : e.parts) out.push_back(value(*p, scope));
      return out;
    }
    case Of::kMap: {
      auto out = std::make_shared<JinjaValue::Map>();
      for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) out->set(part(i).text(), part(i + 1));
      return {std::move(out)};
    }
    case Of::kAttribute:
    case Of::kItem:
      return item(e, scope);
    case Of::kSlice:
      return slice(e, scope);
    case Of::kCall:
      return call(e, scope);
    case Of::kFilter:
    case Of::kTest:
      return applied(e, scope);
    case Of::kNot:
      return !part(0).truthy();
    case Of::kUnary: {
      const JinjaValue of = part(0);
      return e.name == "-" ? jinja_arithmetic("-", std::int64_t{0}, of)
                           : jinja_arithmetic("+", std::int64_t{0}, of);
    }
    case Of::kBinary:
      return binary(e, scope);
    case Of::kCompare:
      return compare(e, scope);
    case Of::kChoice:
      if (part(1).truthy()) return part(0);
      return e.parts[2] ? part(2) : JinjaValue::undefined("the other choice");
  }
  return {};
}

JinjaValue JinjaRun::name(const JinjaExpression& e, JinjaScope& scope) {
  for (const JinjaScope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->variables.find(e.name);
    if (found != at->variables.end()) return found->second;
  }
  return JinjaValue::undefined(e.name);
}

// a.b is an attribute, then an item; a["b"] an item, then an attribute.
JinjaValue JinjaRun::item(const JinjaExpression& e, JinjaScope& scope) {
  const JinjaValue of = value(*e.parts[0], scope);
  const bool attribute = e.kind == Of::kAttribute;
  if (of.is_undefined()) {
    const std::string& called = e.parts[0]->name;
    throw JinjaError(fmt::format("there is no {}", called.empty() ? "such value" : quote(called)));
  }
  if (attribute) {
    JinjaValue method = jinja_method(of, e.name);
    if (!method.is_undefined()) return method;
    return of.is_map() ? jinja_item(of, e.name) : JinjaValue::undefined(e.name);
  }
  const JinjaValue key = value(*e.parts[1], scope);
  JinjaValue out = jinja_item(of, key);
  if (out.is_undefined() && key.is_string()) out = jinja_method(of, key.string()->bytes());
  return out;
}

// Filters and tests that look at all of a value take steps for it.
JinjaValue JinjaRun::applied(const JinjaExpression& e, JinjaScope& scope) {
  const JinjaValue of = value(*e.parts[0], scope);
  const JinjaArguments with = arguments(e.arguments, scope);
  if (e.kind == Of::kTest) {
    for (const JinjaValue& v : with.values) looks(v);
    return apply_jinja_test(e.name, of, with) != e.negated;
  }
  constexpr std::string_view kQuick[] = {"length",  "count", "first", "last",
                                         "default", "d",     "safe"};
  if (std::find(std::begin(kQuick), std::end(kQuick), e.name) == std::end(kQuick)) looks(of);
  return apply_jinja_filter(e.name, of, with);
}

JinjaValue JinjaRun::slice(const JinjaExpression& e, JinjaScope& scope) {
  const JinjaValue of = value(*e.parts[0], scope);
  if (!of.is_list() && !of.is_string()) {
    throw JinjaError(fmt::format("{} has no slices", of.type()));
  }
  const auto n = static_cast<std::int64_t>(of.size());
  const auto given = [&](std::size_t i) -> std::optional<std::int64_t> {
    const JinjaValue v = e.parts[i] ? value(*e.parts[i], scope) : JinjaValue(nullptr);
    return v.is_none() ? std::nullopt : std::optional(v.integer());
  };
  const std::int64_t by = std::clamp<std::int64_t>(given(3).value_or(1), -n - 1, n + 1);
  if (by == 0) throw JinjaError("a slice by steps of zero");
  const auto within = [&](std::size_t part, std::int64_t otherwise) {
    const std::optional<std::int64_t> i = given(part);
    if (!i) return otherwise;
    return std::clamp<std::int64_t>(*i < 0 ? *i + n : *i, by > 0 ? 0 : -1, by > 0 ? n : n - 1);
  };
  const std::int64_t begin = within(1, by > 0 ? 0 : n - 1), end = within(2, by > 0 ? n : -1);
  if (of.is_string() && by == 1) {
    const JinjaText& text = *of.string();
    const std::size_t from = jinja_place(text.bytes(), static_cast<std::size_t>(begin));
    const auto characters = static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin));
    return text.part(from, jinja_place(std::string_view(text.bytes()).substr(from), characters));
  }
  const JinjaList all = of.elements();
  JinjaList out;
  for (std::int64_t i = begin; by > 0 ? i < end : i > end; i += by) {
    out.push_back(all[static_cast<std::size_t>(i)]);
  }
  if (of.is_list()) return out;
  JinjaText text;
  for (const JinjaValue& c : out) text.add(*c.string());
  return text;
}

JinjaArguments JinjaRun::arguments(const JinjaCallArguments& a, JinjaScope& scope) {
  JinjaArguments out;
  for (const auto& v : a.values) out.values.push_back(value(*v, scope));
  for (const auto& [name, v] : a.named) out.named.emplace_back(name, value(*v, scope));
  return out;
}

JinjaValue JinjaRun::call(const JinjaExpression& e, JinjaScope& scope) {
  const JinjaValue of = value(*e.parts[0], scope);
  if (!of.is_function()) {
    throw JinjaError(fmt::format("{} is no function", quote(e.parts[0]->name, 60)));
  }
  looks(of);
  JinjaArguments given = arguments(e.arguments, scope);
  return (*of.function())(given);
}

JinjaValue JinjaRun::binary(const JinjaExpression& e, JinjaScope& scope) {
  JinjaValue a = value(*e.parts[0], scope);
  if (e.name == "and") return a.truthy() ? value(*e.parts[1], scope) : a;
  if (e.name == "or") return a.truthy() ? a : value(*e.parts[1], scope);
  const JinjaValue b = value(*e.parts[1], scope);
  if (e.name == "~") {
    JinjaText out = a.text();
    out.add(b.text());
    return out;
  }
  return jinja_arithmetic(e.name, a, b);
}

JinjaValue JinjaRun::compare(const JinjaExpression& e, JinjaScope& scope) {
  JinjaValue a = value(*e.parts[0], scope);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    JinjaValue b = value(*e.parts[i + 1], scope);
    const std::string& sign = e.names[i];
    looks(sign.ends_with("in") || b.weight() < a.weight() ? b : a);
    JinjaArguments in{.values = {b}, .named = {}};
    const bool holds = sign == "=="   ? a == b
                       : sign == "!=" ? !(a == b)
                       : sign == "<"  ? JinjaValue::less(a, b)
                       : sign == ">"  ? JinjaValue::less(b, a)
                       : sign == "<=" ? !JinjaValue::less(b, a)
                       : sign == ">=" ? !JinjaValue::less(a, b)
                       : sign == "in" ? apply_jinja_test("in", a, in)
                                      : !apply_jinja_test("in", a, in);
    if (!holds) return false;
    a = std::move(b);
  }
  return true;
}

}  // namespace forerun::jinja
