// Filters.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "forerun/base/python_space.h"
#include "forerun/formats/jinja/internal/jinja_ast.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

using Value = JinjaValue;
using Arguments = JinjaArguments;
using Filter = Value (*)(const Value&, const Arguments&);

// Of ASCII, as templates use it; other characters stay.
JinjaText changed_case(const JinjaText& text, int (*to)(int)) {
  std::string bytes = text.bytes();
  for (char& c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) c = static_cast<char>(to(byte));
  }
  return text.replaced(std::move(bytes));
}

Value length(const Value& v, const Arguments&) { return static_cast<std::int64_t>(v.size()); }

Value titled(const Value& v, const Arguments&) {
  const JinjaText lower = changed_case(v.text(), std::tolower);
  std::string bytes = lower.bytes();
  bool begins = true;
  for (char& c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (begins && u < 0x80) c = static_cast<char>(std::toupper(u));
    begins = std::isspace(u) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  return lower.replaced(std::move(bytes));
}

Value capitalized(const Value& v, const Arguments&) {
  const JinjaText lower = changed_case(v.text(), std::tolower);
  JinjaText out = changed_case(lower.part(0, 1), std::toupper);
  if (!lower.empty()) out.add(lower.part(1));
  return out;
}

Value otherwise(const Value& v, const Arguments& a) {
  const Value* falsy = a.get(1, "boolean");
  const bool use = v.is_undefined() || (falsy != nullptr && falsy->truthy() && !v.truthy());
  if (!use) return v;
  const Value* value = a.get(0, "default_value");
  return value == nullptr ? Value("") : *value;
}

// a.b.0 of a value.
Value attribute_of(const Value& v, const Value& of) {
  const std::string path = of.text().bytes();
  Value at = v;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const bool index = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    at = jinja_item(at, index && name.size() < 10
                            ? Value(static_cast<std::int64_t>(std::stoll(name)))
                            : Value(name));
    begin = end + 1;
  }
  return at;
}

Value joined_by(const Value& v, const Arguments& a) {
  const Value* between = a.get(0, "d");
  const Value* attribute = a.get(1, "attribute");
  JinjaText out;
  bool first = true;
  for (const Value& part : v.elements()) {
    if (!first && between != nullptr) out.add(between->text());
    out.add(attribute == nullptr ? part.text() : attribute_of(part, *attribute).text());
    first = false;
  }
  return out;
}

Value to_json(const Value& v, const Arguments& a) {
  if (a.get(99, "separators") != nullptr || a.get(99, "sort_keys") != nullptr) {
    throw JinjaError("tojson's separators and sort_keys are not supported");
  }
  const Value* indent = a.get(1, "indent");
  return v.json(indent == nullptr || indent->is_none()
                    ? -1
                    : static_cast<int>(std::clamp<std::int64_t>(indent->integer(), 0, 16)));
}

Value end_of(const Value& v, bool front) {
  if (v.size() == 0) return Value::undefined("an element of an empty list");
  if (v.is_map()) {
    const JinjaFields& fields = v.map()->fields;
    return (front ? fields.front() : fields.back()).first;
  }
  return jinja_item(v, std::int64_t{front ? 0 : -1});
}

Value items(const Value& v, const Arguments&) {
  if (v.is_undefined()) return JinjaList{};
  if (!v.is_map() || v.map()->open) throw JinjaError(fmt::format("{} has no items", v.type()));
  Arguments none;
  return (*jinja_method(v, "items").function())(none);
}

// The arguments of the filter or test that `map` and `select` call.
Arguments rest_of(const Arguments& a, std::size_t from) {
  Arguments out{.values = {}, .named = a.named};
  for (std::size_t i = from; i < a.values.size(); ++i) out.values.push_back(a.values[i]);
  return out;
}

// Jinja2 asks whether there is a value before it goes through it: of none, 0 or false nothing
// comes, where `list` and the others fail.
Value mapped(const Value& v, const Arguments& a) {
  JinjaList out;
  if (!v.truthy()) return out;
  if (const Value* attribute = a.get(99, "attribute")) {
    const Value* missing = a.get(99, "default");
    for (const Value& e : v.elements()) {
      const Value value = attribute_of(e, *attribute);
      out.push_back(value.is_undefined() && missing != nullptr ? *missing : value);
    }
    return out;
  }
  const std::string name = a.at(0, "filter").text().bytes();
  if (!is_jinja_filter(name)) throw JinjaError("map by an unknown filter");
  for (const Value& e : v.elements()) out.push_back(apply_jinja_filter(name, e, rest_of(a, 1)));
  return out;
}

Value chosen(const Value& v, const Arguments& a, bool by_attribute, bool wanted) {
  const std::size_t first = by_attribute ? 1 : 0;
  JinjaList out;
  if (!v.truthy()) return out;
  for (const Value& e : v.elements()) {
    const Value of = by_attribute ? attribute_of(e, a.at(0, "attribute")) : e;
    bool holds = of.truthy();
    if (const Value* test = a.get(first, "test")) {
      const std::string name = test->text().bytes();
      if (!is_jinja_test(name)) throw JinjaError("select by an unknown test");
      holds = apply_jinja_test(name, of, rest_of(a, first + 1));
    }
    if (holds == wanted) out.push_back(e);
  }
  return out;
}

Value sorted_pairs(const Value& v, const Arguments& a) {
  const Value pairs = items(v, a);
  JinjaList all = *pairs.list();
  std::stable_sort(all.begin(), all.end(), [](const Value& x, const Value& y) {
    return changed_case((*x.list())[0].text(), std::tolower) <
           changed_case((*y.list())[0].text(), std::tolower);
  });
  return all;
}

Value sorted(const Value& v, const Arguments& a) {
  JinjaList all = v.elements();
  const Value* attribute = a.get(99, "attribute");
  const Value* falling = a.get(0, "reverse");
  const auto key = [&](const Value& e) {
    const Value k = attribute == nullptr ? e : attribute_of(e, *attribute);
    return k.is_string() ? Value(changed_case(*k.string(), std::tolower)) : k;
  };
  const bool down = falling != nullptr && falling->truthy();
  std::stable_sort(all.begin(), all.end(), [&](const Value& x, const Value& y) {
    return down ? Value::less(key(y), key(x)) : Value::less(key(x), key(y));
  });
  return all;
}

Value reversed(const Value& v, const Arguments&) {
  JinjaList all = v.elements();
  std::reverse(all.begin(), all.end());
  if (!v.is_string()) return all;
  return joined_by(all, {});
}

Value unique(const Value& v, const Arguments&) {
  JinjaList out;
  for (const Value& e : v.elements()) {
    if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
  }
  return out;
}

Value indented(const Value& v, const Arguments& a) {
  const Value* width = a.get(0, "width");
  const Value* first = a.get(1, "first");
  const Value* blank = a.get(2, "blank");
  const std::int64_t n = width == nullptr ? 4 : std::clamp<std::int64_t>(width->integer(), 0, 100);
  const std::string space(static_cast<std::size_t>(n), ' ');
  const JinjaText text = v.text();
  const std::string& bytes = text.bytes();
  JinjaText out;
  if (first != nullptr && first->truthy()) out.write(space);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
    out.add(text.part(at, end - at));
    const bool empty = end < bytes.size() && bytes[end] == '\n';
    if (end < bytes.size() && (!empty || (blank != nullptr && blank->truthy()))) out.write(space);
    at = end;
  }
  return out;
}

// As Python's float() reads a text.
std::optional<double> real(const Value& v) {
  if (v.is_number()) return v.number();
  if (!v.is_string()) return std::nullopt;
  const std::string text(python_rstripped(python_lstripped(v.string()->bytes())));
  char* end = nullptr;
  const double out = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size();
  return whole ? std::optional(out) : std::nullopt;
}

Value whole(const Value& v, const Arguments& a) {
  if (v.is_int()) return v;
  const Value* other = a.get(0, "default");
  const std::optional<double> number = real(v);
  if (!number || !(std::abs(*number) < 9e18))
    return other == nullptr ? Value(std::int64_t{0}) : *other;
  return static_cast<std::int64_t>(*number);
}

Value absolute(const Value& v, const Arguments&) {
  if (v.is_float()) return std::abs(v.number());
  return v.integer() < 0 ? jinja_arithmetic("-", std::int64_t{0}, v) : Value(v.integer());
}

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> all = {
      {"trim",
       [](const Value& v, const Arguments& a) -> Value {
         const Value* chars = a.get(0, "chars");
         return jinja_stripped(v.text(), chars == nullptr ? nullptr : chars->string(), true, true);
       }},
      {"upper",
       [](const Value& v, const Arguments&) -> Value {
         return changed_case(v.text(), std::toupper);
       }},
      {"lower",
       [](const Value& v, const Arguments&) -> Value {
         return changed_case(v.text(), std::tolower);
       }},
      {"title", titled},
      {"capitalize", capitalized},
      {"length", length},
      {"count", length},
      {"default", otherwise},
      {"d", otherwise},
      {"join", joined_by},
      {"replace",
       [](const Value& v, const Arguments& a) -> Value {
         const Value* most = a.get(2, "count");
         return jinja_replaced(v.text(), a.at(0, "old").text(), a.at(1, "new").text(),
                               most == nullptr ? -1 : most->integer());
       }},
      {"tojson", to_json},
      {"first", [](const Value& v, const Arguments&) { return end_of(v, true); }},
      {"last", [](const Value& v, const Arguments&) { return end_of(v, false); }},
      {"items", items},
      {"dictsort", sorted_pairs},
      {"list", [](const Value& v, const Arguments&) -> Value { return v.elements(); }},
      {"string", [](const Value& v, const Arguments&) -> Value { return v.text(); }},
      {"safe", [](const Value& v, const Arguments&) { return v; }},
      {"int", whole},
      {"float", [](const Value& v, const Arguments&) -> Value { return real(v).value_or(0.0); }},
      {"abs", absolute},
      {"map", mapped},
      {"select", [](const Value& v, const Arguments& a) { return chosen(v, a, false, true); }},
      {"reject", [](const Value& v, const Arguments& a) { return chosen(v, a, false, false); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, true); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, false); }},
      {"sort", sorted},
      {"reverse", reversed},
      {"unique", unique},
      {"indent", indented},
  };
  return all;
}

}  // namespace

bool is_jinja_filter(std::string_view name) { return filters().contains(name); }

JinjaValue apply_jinja_filter(std::string_view name, const JinjaValue& value,
                              const JinjaArguments& arguments) {
  return filters().at(name)(value, arguments);
}

}  // namespace forerun::jinja
