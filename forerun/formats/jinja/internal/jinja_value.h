#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "forerun/formats/jinja/internal/jinja_text.h"

namespace forerun::jinja {

class JinjaValue;
using JinjaList = std::vector<JinjaValue>;
using JinjaFields = std::vector<std::pair<JinjaText, JinjaValue>>;  // in order

struct JinjaArguments;
using JinjaFunction = std::function<JinjaValue(JinjaArguments&)>;

/// A value of a template: Python's None, bool, int, float, str, list, dict and callables, and
/// Jinja's undefined. Lists and dicts are shared, as in Python; only namespaces change.
class JinjaValue {
 public:
  struct Undefined {
    std::string name;
  };
  struct Map {
    JinjaFields fields;
    bool open = false;  // a namespace, whose fields may be set
    const JinjaValue* find(std::string_view name) const;
    void set(const JinjaText& name, JinjaValue value);
  };

  JinjaValue() : v_(Undefined{}) {}
  static JinjaValue undefined(std::string name) {
    JinjaValue out;
    out.v_ = Undefined{std::move(name)};
    return out;
  }
  JinjaValue(std::nullptr_t) : v_(nullptr) {}                         // NOLINT: implicit by design
  JinjaValue(bool b) : v_(b) {}                                       // NOLINT
  JinjaValue(std::int64_t i) : v_(i) {}                               // NOLINT
  JinjaValue(double d) : v_(d) {}                                     // NOLINT
  JinjaValue(JinjaText s);                                            // NOLINT
  JinjaValue(std::string s) : JinjaValue(JinjaText(std::move(s))) {}  // NOLINT
  JinjaValue(const char* s) : JinjaValue(JinjaText(s)) {}             // NOLINT
  /// @throws JinjaError  nested deeper than 100, or more than a million values with all it holds
  JinjaValue(JinjaList l);             // NOLINT
  JinjaValue(std::shared_ptr<Map> m);  // NOLINT
  /// @param of  what it keeps, for a method
  explicit JinjaValue(JinjaFunction f, const JinjaValue* of = nullptr);
  /// @param given  its texts are marked as such, save a "role" of one word: templates build their
  ///               marks from it ("<|user|>")
  static JinjaValue of(const nlohmann::ordered_json& json, bool given);

  bool is_undefined() const { return std::holds_alternative<Undefined>(v_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(v_); }
  bool is_bool() const { return std::holds_alternative<bool>(v_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(v_); }
  bool is_float() const { return std::holds_alternative<double>(v_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return string() != nullptr; }
  bool is_list() const { return list() != nullptr; }
  bool is_map() const { return map() != nullptr; }
  bool is_function() const { return function() != nullptr; }

  const JinjaText* string() const { return pointed<const JinjaText>(); }
  const JinjaList* list() const { return pointed<const JinjaList>(); }
  Map* map() const { return pointed<Map>(); }
  const JinjaFunction* function() const { return pointed<const JinjaFunction>(); }
  std::int64_t integer() const;  ///< of a bool too. @throws JinjaError  no whole number
  double number() const;         ///< @throws JinjaError  no number

  /// It is a namespace, or holds one.
  bool holds_namespace() const { return open_; }
  /// What going through all of it takes: the values it is made of, long texts more than once.
  std::size_t weight() const { return weight_; }
  bool truthy() const;
  /// As Python's str().
  JinjaText text() const;
  /// As Python's repr().
  JinjaText repr() const;
  /// As transformers' tojson. @param indent  spaces; below 0: one line
  JinjaText json(int indent = -1) const;
  /// "string", "list" ... for messages.
  std::string_view type() const;
  friend bool operator==(const JinjaValue& a, const JinjaValue& b);
  /// @throws JinjaError  values that have no order
  static bool less(const JinjaValue& a, const JinjaValue& b);
  /// The elements: of a list, the keys of a dict, the characters of a string.
  /// @throws JinjaError  nothing to go through, or a text of more than a million characters
  JinjaList elements() const;
  /// How many those are.
  std::size_t size() const;

 private:
  template <class T>
  T* pointed() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&v_);
    return p == nullptr ? nullptr : p->get();
  }
  void add_repr(JinjaText& out) const;
  void add_json(JinjaText& out, int indent, int depth) const;
  void holds(const JinjaValue& part);

  std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double,
               std::shared_ptr<const JinjaText>, std::shared_ptr<const JinjaList>,
               std::shared_ptr<Map>, std::shared_ptr<const JinjaFunction>>
      v_;
  int depth_ = 0;  // values inside each other: they are freed recursively
  std::size_t weight_ = 1;
  bool open_ = false;  // see holds_namespace
};

/// The arguments of a call.
struct JinjaArguments {
  JinjaList values;
  JinjaFields named;

  /// The argument at a place or of a name; nullptr if there is none.
  const JinjaValue* get(std::size_t place, std::string_view name) const;
  /// @throws JinjaError  there is none
  const JinjaValue& at(std::size_t place, std::string_view name) const;
};

}  // namespace forerun::jinja
