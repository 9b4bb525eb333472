#include "forerun/formats/jinja/internal/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/base/utf8.h"

namespace forerun::jinja {
namespace {

// As Python writes a float.
std::string float_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  const double size = std::abs(x);
  if (size != 0.0 && (size < 1e-4 || size >= 1e16)) return fmt::format("{}", x);
  std::string out = fmt::format("{}", x);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

// Parts of a text between which `escaped` characters are written in another way.
template <class Escape>
void add_escaped(JinjaText& out, const JinjaText& text, Escape escaped) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string other = escaped(text.bytes()[i]);
    if (other.empty()) continue;
    out.add(text.part(begin, i - begin));
    out.write(other);
    begin = i + 1;
  }
  out.add(begin == 0 ? text : text.part(begin));
}

void add_python_string(JinjaText& out, const JinjaText& text) {
  const std::string& bytes = text.bytes();
  const bool both = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char mark = both ? '"' : '\'';
  out.write(std::string_view(&mark, 1));
  add_escaped(out, text, [mark](char c) -> std::string {
    if (c == '\\' || c == mark) return {'\\', c};
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : "";
  });
  out.write(std::string_view(&mark, 1));
}

void add_json_string(JinjaText& out, const JinjaText& text) {
  out.write("\"");
  add_escaped(out, text, [](char c) -> std::string {
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    if (const std::size_t i = kPlain.find(c); i != kPlain.npos) return {'\\', kLetters[i]};
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 ? fmt::format("\\u{:04x}", byte) : "";
  });
  out.write("\"");
}

bool is_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

std::string well_formed(const std::string& text) {
  return is_valid_utf8(text) ? text : replace_invalid_utf8(text);
}

}  // namespace

const JinjaValue* JinjaValue::Map::find(std::string_view name) const {
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [&](const auto& f) { return f.first.bytes() == name; });
  return at == fields.end() ? nullptr : &at->second;
}

void JinjaValue::Map::set(const JinjaText& name, JinjaValue value) {
  const auto at =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; });
  if (at == fields.end()) {
    fields.emplace_back(name, std::move(value));
  } else {
    at->second = std::move(value);
  }
}

void JinjaValue::holds(const JinjaValue& part) {
  constexpr int kMostDepth = 100;
  constexpr std::size_t kMostWeight = 1'000'000;
  depth_ = std::max(depth_, part.depth_ + 1);
  weight_ += part.weight_;
  open_ = open_ || part.open_;
  if (depth_ > kMostDepth) throw JinjaError("values are nested too deep");
  if (weight_ > kMostWeight) throw JinjaError("a value holds too many others");
}

JinjaValue::JinjaValue(JinjaText s) : v_(nullptr) {
  constexpr std::size_t kBytes = 256;  // of a text, worth a value
  weight_ += s.size() / kBytes;
  v_ = std::make_shared<const JinjaText>(std::move(s));
}

JinjaValue::JinjaValue(JinjaList l) : v_(nullptr) {
  for (const JinjaValue& part : l) holds(part);
  v_ = std::make_shared<const JinjaList>(std::move(l));
}

JinjaValue::JinjaValue(std::shared_ptr<Map> m) : v_(nullptr) {
  open_ = m->open;
  for (const auto& [name, part] : m->fields) holds(part);
  v_ = std::move(m);
}

JinjaValue::JinjaValue(JinjaFunction f, const JinjaValue* of) : v_(nullptr) {
  if (of != nullptr) holds(*of);
  v_ = std::make_shared<const JinjaFunction>(std::move(f));
}

JinjaValue JinjaValue::of(const nlohmann::ordered_json& json, bool given) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float() || json.is_number_unsigned()) {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() <= INT64_MAX) {
      return json.get<std::int64_t>();
    }
    return json.get<double>();
  }
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_string()) return JinjaText(well_formed(json.get_ref<const std::string&>()), given);
  if (json.is_array()) {
    JinjaList out;
    for (const auto& element : json) out.push_back(of(element, given));
    return out;
  }
  auto out = std::make_shared<Map>();
  for (const auto& [name, value] : json.items()) {
    const bool role =
        name == "role" && value.is_string() && is_word(value.get_ref<const std::string&>());
    out->fields.emplace_back(JinjaText(well_formed(name), given), of(value, given && !role));
  }
  return out;
}

std::int64_t JinjaValue::integer() const {
  if (is_bool()) return std::get<bool>(v_) ? 1 : 0;
  if (is_int()) return std::get<std::int64_t>(v_);
  throw JinjaError(fmt::format("a whole number is wanted, not {}", type()));
}

double JinjaValue::number() const {
  if (is_float()) return std::get<double>(v_);
  if (is_bool() || is_int()) return static_cast<double>(integer());
  throw JinjaError(fmt::format("a number is wanted, not {}", type()));
}

bool JinjaValue::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0.0;
  if (is_string()) return !string()->empty();
  if (is_list()) return !list()->empty();
  return !is_map() || map()->open || !map()->fields.empty();
}

std::string_view JinjaValue::type() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "boolean";
  if (is_int()) return "integer";
  if (is_float()) return "float";
  if (is_string()) return "string";
  if (is_list()) return "list";
  return is_map() ? "mapping" : "function";
}

JinjaText JinjaValue::text() const {
  if (is_undefined()) return {};
  return is_string() ? *string() : repr();
}

JinjaText JinjaValue::repr() const {
  JinjaText out;
  add_repr(out);
  return out;
}

void JinjaValue::add_repr(JinjaText& out) const {
  if (is_undefined()) return out.write("Undefined");
  if (is_none()) return out.write("None");
  if (is_bool()) return out.write(std::get<bool>(v_) ? "True" : "False");
  if (is_int()) return out.write(std::to_string(integer()));
  if (is_float()) return out.write(float_text(number()));
  if (is_string()) return add_python_string(out, *string());
  bool first = true;
  const auto between = [&] {
    if (!std::exchange(first, false)) out.write(", ");
  };
  if (const JinjaList* all = list()) {
    out.write("[");
    for (const JinjaValue& v : *all) {
      between();
      v.add_repr(out);
    }
    return out.write("]");
  }
  const Map* m = map();
  if (m == nullptr || m->open) return out.write(m == nullptr ? "<function>" : "<namespace>");
  out.write("{");
  for (const auto& [name, value] : m->fields) {
    between();
    add_python_string(out, name);
    out.write(": ");
    value.add_repr(out);
  }
  out.write("}");
}

JinjaText JinjaValue::json(int indent) const {
  JinjaText out;
  add_json(out, indent, 0);
  return out;
}

void JinjaValue::add_json(JinjaText& out, int indent, int depth) const {
  const auto line = [&](int deeper) {
    if (indent < 0) return;
    out.write("\n");
    out.write(std::string(static_cast<std::size_t>(indent * deeper), ' '));
  };
  const auto between = [&](bool first) {
    if (!first) out.write(indent >= 0 ? "," : ", ");
    line(depth + 1);
  };
  if (is_none()) {
    out.write("null");
  } else if (is_bool()) {
    out.write(std::get<bool>(v_) ? "true" : "false");
  } else if (is_number()) {
    add_repr(out);
  } else if (is_string()) {
    add_json_string(out, *string());
  } else if (const JinjaList* all = list()) {
    out.write("[");
    for (std::size_t i = 0; i < all->size(); ++i) {
      between(i == 0);
      (*all)[i].add_json(out, indent, depth + 1);
    }
    if (!all->empty()) line(depth);
    out.write("]");
  } else if (const Map* m = map(); m != nullptr && !m->open) {
    out.write("{");
    for (std::size_t i = 0; i < m->fields.size(); ++i) {
      between(i == 0);
      add_json_string(out, m->fields[i].first);
      out.write(": ");
      m->fields[i].second.add_json(out, indent, depth + 1);
    }
    if (!m->fields.empty()) line(depth);
    out.write("}");
  } else {
    throw JinjaError(fmt::format("{} cannot be written as JSON", type()));
  }
}

bool operator==(const JinjaValue& a, const JinjaValue& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_string() && b.is_string()) return *a.string() == *b.string();
  if (a.is_list() && b.is_list()) {
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end());
  }
  if (a.is_map() && b.is_map()) {
    if (a.map()->open || b.map()->open) return a.map() == b.map();  // as objects of Python
    const JinjaFields &x = a.map()->fields, &y = b.map()->fields;
    return x.size() == y.size() && std::all_of(x.begin(), x.end(), [&](const auto& f) {
             const JinjaValue* other = b.map()->find(f.first.bytes());
             return other != nullptr && *other == f.second;
           });
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool JinjaValue::less(const JinjaValue& a, const JinjaValue& b) {
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.is_string() && b.is_string()) return *a.string() < *b.string();
  if (a.is_list() && b.is_list()) {
    return std::lexicographical_compare(a.list()->begin(), a.list()->end(), b.list()->begin(),
                                        b.list()->end(), less);
  }
  throw JinjaError(fmt::format("{} and {} have no order", a.type(), b.type()));
}

std::size_t JinjaValue::size() const {
  if (is_undefined()) return 0;
  if (is_list()) return list()->size();
  if (is_map()) return map()->fields.size();
  if (is_string()) return jinja_length(string()->bytes());
  throw JinjaError(fmt::format("{} has no elements", type()));
}

JinjaList JinjaValue::elements() const {
  constexpr std::size_t kMostCharacters = 1'000'000;
  if (is_list()) return *list();
  JinjaList out;
  if (size() > kMostCharacters) throw JinjaError("a text is too long to go through");
  if (is_map()) {
    for (const auto& [name, value] : map()->fields) out.emplace_back(name);
  }
  if (!is_string()) return out;
  const JinjaText& text = *string();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = first_char(std::string_view(text.bytes()).substr(at)).size;
    out.emplace_back(text.part(at, n));
    at += n;
  }
  return out;
}

const JinjaValue* JinjaArguments::get(std::size_t place, std::string_view name) const {
  if (place < values.size()) return &values[place];
  const auto at = std::find_if(named.begin(), named.end(),
                               [&](const auto& n) { return n.first.bytes() == name; });
  return at == named.end() ? nullptr : &at->second;
}

const JinjaValue& JinjaArguments::at(std::size_t place, std::string_view name) const {
  const JinjaValue* value = get(place, name);
  if (value == nullptr) throw JinjaError(fmt::format("the argument '{}' is missing", name));
  return *value;
}

}  // namespace forerun::jinja
