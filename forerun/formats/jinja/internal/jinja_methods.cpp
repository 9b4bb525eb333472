// Methods of texts and dicts.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "forerun/base/python_space.h"
#include "forerun/base/utf8.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

const JinjaText* chars_of(const JinjaArguments& a) {
  const JinjaValue* chars = a.get(0, "chars");
  return chars == nullptr || chars->is_none() ? nullptr : chars->string();
}

const JinjaText& string_of(const JinjaValue& value) {
  if (!value.is_string()) throw JinjaError(fmt::format("a text is wanted, not {}", value.type()));
  return *value.string();
}

JinjaList words(const JinjaText& text, std::int64_t most) {
  JinjaList out;
  const std::string_view bytes = text.bytes();
  const auto place = [&](std::string_view rest) { return bytes.size() - rest.size(); };
  for (std::string_view rest = python_lstripped(bytes); !rest.empty();) {
    std::size_t n = most == 0 ? rest.size() : 0;
    while (n < rest.size() && !is_python_space(first_char(rest.substr(n)).code)) {
      n += first_char(rest.substr(n)).size;
    }
    out.emplace_back(text.part(place(rest), n));
    rest = python_lstripped(rest.substr(n));
    if (most > 0) --most;
  }
  return out;
}

JinjaValue split(const JinjaText& text, const JinjaArguments& a) {
  const JinjaValue* by = a.get(0, "sep");
  const JinjaValue* limit = a.get(1, "maxsplit");
  std::int64_t most = limit == nullptr ? -1 : limit->integer();
  if (by == nullptr || by->is_none()) return words(text, most);
  JinjaList out;
  const std::string& mark = string_of(*by).bytes();
  if (mark.empty()) throw JinjaError("split by an empty text");
  std::size_t at = 0;
  for (std::size_t end; most != 0 && (end = text.bytes().find(mark, at)) != std::string::npos;
       --most) {
    out.emplace_back(text.part(at, end - at));
    at = end + mark.size();
  }
  out.emplace_back(text.part(at));
  return out;
}

// From the end; the parts stay in the text's order.
JinjaValue split_right(const JinjaText& text, const JinjaArguments& a) {
  const std::string& mark = string_of(a.at(0, "sep")).bytes();
  const JinjaValue* limit = a.get(1, "maxsplit");
  if (mark.empty()) throw JinjaError("split by an empty text");
  JinjaList out;
  std::size_t end = text.size();
  for (std::int64_t most = limit == nullptr ? -1 : limit->integer();
       most != 0 && end >= mark.size(); --most) {
    const std::size_t at = text.bytes().rfind(mark, end - mark.size());
    if (at == std::string::npos) break;
    out.emplace_back(text.part(at + mark.size(), end - at - mark.size()));
    end = at;
  }
  out.emplace_back(text.part(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

bool any_end(const std::string& text, const JinjaValue& of, bool start) {
  const auto matches = [&](const JinjaValue& end) {
    const std::string& part = string_of(end).bytes();
    return start ? text.starts_with(part) : text.ends_with(part);
  };
  if (of.is_list()) return std::any_of(of.list()->begin(), of.list()->end(), matches);
  return matches(of);
}

JinjaValue find(const std::string& text, const std::string& what) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) return std::int64_t{-1};
  return static_cast<std::int64_t>(jinja_length(std::string_view(text).substr(0, at)));
}

JinjaValue count(const std::string& text, const std::string& what) {
  std::int64_t n = 0;
  for (std::size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string::npos;
       at += what.size()) {
    ++n;
  }
  return n;
}

JinjaValue lines(const JinjaText& text) {
  JinjaList out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.bytes().find('\n', at), text.size());
    out.emplace_back(text.part(at, end - at));
    at = end + 1;
  }
  return out;
}

JinjaValue without_affix(const JinjaText& text, const std::string& affix, bool start) {
  if (start && text.bytes().starts_with(affix)) return text.part(affix.size());
  if (!start && text.bytes().ends_with(affix)) return text.part(0, text.size() - affix.size());
  return text;
}

JinjaValue joined(const JinjaText& between, const JinjaValue& parts) {
  JinjaText out;
  bool first = true;
  for (const JinjaValue& part : parts.elements()) {
    if (!first) out.add(between);
    out.add(string_of(part));
    first = false;
  }
  return out;
}

using TextMethod = JinjaValue (*)(const JinjaText&, const JinjaArguments&);

const std::map<std::string_view, TextMethod>& text_methods() {
  using T = JinjaText;
  using A = JinjaArguments;
  static const std::map<std::string_view, TextMethod> all = {
      {"strip",
       [](const T& t, const A& a) -> JinjaValue {
         return jinja_stripped(t, chars_of(a), true, true);
       }},
      {"lstrip",
       [](const T& t, const A& a) -> JinjaValue {
         return jinja_stripped(t, chars_of(a), true, false);
       }},
      {"rstrip",
       [](const T& t, const A& a) -> JinjaValue {
         return jinja_stripped(t, chars_of(a), false, true);
       }},
      {"split", split},
      {"rsplit", split_right},
      {"splitlines", [](const T& t, const A&) { return lines(t); }},
      {"startswith",
       [](const T& t, const A& a) -> JinjaValue {
         return any_end(t.bytes(), a.at(0, "prefix"), true);
       }},
      {"endswith",
       [](const T& t, const A& a) -> JinjaValue {
         return any_end(t.bytes(), a.at(0, "suffix"), false);
       }},
      {"removeprefix",
       [](const T& t, const A& a) {
         return without_affix(t, string_of(a.at(0, "prefix")).bytes(), true);
       }},
      {"removesuffix",
       [](const T& t, const A& a) {
         return without_affix(t, string_of(a.at(0, "suffix")).bytes(), false);
       }},
      {"replace",
       [](const T& t, const A& a) -> JinjaValue {
         const JinjaValue* most = a.get(2, "count");
         return jinja_replaced(t, string_of(a.at(0, "old")), string_of(a.at(1, "new")),
                               most == nullptr ? -1 : most->integer());
       }},
      {"join", [](const T& t, const A& a) { return joined(t, a.at(0, "iterable")); }},
      {"find",
       [](const T& t, const A& a) { return find(t.bytes(), string_of(a.at(0, "sub")).bytes()); }},
      {"count",
       [](const T& t, const A& a) { return count(t.bytes(), string_of(a.at(0, "sub")).bytes()); }},
      {"upper", [](const T& t, const A&) { return apply_jinja_filter("upper", t, {}); }},
      {"lower", [](const T& t, const A&) { return apply_jinja_filter("lower", t, {}); }},
      {"title", [](const T& t, const A&) { return apply_jinja_filter("title", t, {}); }},
      {"capitalize", [](const T& t, const A&) { return apply_jinja_filter("capitalize", t, {}); }},
  };
  return all;
}

JinjaValue text_method(const JinjaValue& of, const std::string& name) {
  const auto found = text_methods().find(name);
  if (found == text_methods().end()) return JinjaValue::undefined(name);
  return JinjaValue([of, f = found->second](JinjaArguments& a) { return f(*of.string(), a); }, &of);
}

JinjaValue pair_of(const JinjaText& name, const JinjaValue& value) {
  JinjaList pair;
  pair.emplace_back(name);
  pair.push_back(value);
  return pair;
}

JinjaValue map_method(const JinjaValue& of, const std::string& name) {
  const auto method = [&](auto f) {
    return JinjaValue([of, f](JinjaArguments& a) -> JinjaValue { return f(*of.map(), a); }, &of);
  };
  using M = JinjaValue::Map;
  using A = JinjaArguments;
  if (name == "items" || name == "keys" || name == "values") {
    return method([name](const M& m, const A&) -> JinjaValue {
      JinjaList out;
      for (const auto& [key, value] : m.fields) {
        out.push_back(name == "items"  ? pair_of(key, value)
                      : name == "keys" ? JinjaValue(key)
                                       : value);
      }
      return out;
    });
  }
  if (name == "get") {
    return method([](const M& m, const A& a) -> JinjaValue {
      const JinjaValue& key = a.at(0, "key");
      const JinjaValue* value = key.is_string() ? m.find(key.string()->bytes()) : nullptr;
      if (value != nullptr) return *value;
      const JinjaValue* otherwise = a.get(1, "default");
      return otherwise == nullptr ? JinjaValue(nullptr) : *otherwise;
    });
  }
  return JinjaValue::undefined(name);
}

}  // namespace

JinjaText jinja_stripped(const JinjaText& text, const JinjaText* chars, bool left, bool right) {
  std::string_view kept = text.bytes();
  if (chars == nullptr) {
    if (left) kept = python_lstripped(kept);
    if (right) kept = python_rstripped(kept);
  } else {
    const auto goes = [&](std::string_view c) {
      return chars->bytes().find(c) != std::string::npos;
    };
    const auto last = [&] {
      std::size_t n = 1;
      while (n < kept.size() && (static_cast<unsigned char>(kept[kept.size() - n]) & 0xC0) == 0x80)
        ++n;
      return kept.substr(kept.size() - n);
    };
    while (left && !kept.empty() && goes(kept.substr(0, first_char(kept).size))) {
      kept.remove_prefix(first_char(kept).size);
    }
    while (right && !kept.empty() && goes(last())) kept.remove_suffix(last().size());
  }
  return text.part(static_cast<std::size_t>(kept.data() - text.bytes().data()), kept.size());
}

JinjaText jinja_replaced(const JinjaText& text, const JinjaText& from, const JinjaText& to,
                         std::int64_t most) {
  if (from.empty()) throw JinjaError("an empty text cannot be replaced");
  JinjaText out;
  std::size_t at = 0;
  for (std::size_t end;
       most != 0 && (end = text.bytes().find(from.bytes(), at)) != std::string::npos; --most) {
    out.add(text.part(at, end - at));
    out.add(to);
    at = end + from.size();
  }
  out.add(text.part(at));
  return out;
}

JinjaValue jinja_method(const JinjaValue& of, const std::string& name) {
  if (of.is_string()) return text_method(of, name);
  if (of.is_map() && !of.map()->open) return map_method(of, name);
  return JinjaValue::undefined(name);
}

JinjaValue jinja_item(const JinjaValue& of, const JinjaValue& key) {
  const auto missing = [&] { return JinjaValue::undefined(key.text().bytes()); };
  if (of.is_undefined()) throw JinjaError("an undefined value has no items");
  if (of.is_map()) {
    const JinjaValue* value = key.is_string() ? of.map()->find(key.string()->bytes()) : nullptr;
    return value == nullptr ? missing() : *value;
  }
  if ((!key.is_int() && !key.is_bool()) || (!of.is_list() && !of.is_string())) return missing();
  const auto size = static_cast<std::int64_t>(of.size());
  std::int64_t i = key.integer();
  if (i < 0) i += size;
  if (i < 0 || i >= size) return missing();
  const auto at = static_cast<std::size_t>(i);
  if (const JinjaList* list = of.list()) return (*list)[at];
  const JinjaText& text = *of.string();
  const std::size_t begin = jinja_place(text.bytes(), at);
  return text.part(begin, jinja_place(std::string_view(text.bytes()).substr(begin), 1));
}

}  // namespace forerun::jinja
