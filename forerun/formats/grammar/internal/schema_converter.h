#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::internal {

using SchemaJson = nlohmann::ordered_json;  // properties stay in their order

/// Why a schema is not kept: the part, and what is wrong with it.
struct SchemaRefusal {
  std::string message;
};

/// A text as a literal of xgrammar's EBNF.
std::string ebnf_text(std::string_view text);
/// A value as JSON writes it, as a literal.
std::string ebnf_literal(const SchemaJson& value);

/// How values are written that stand apart from each other: strings as they are, without quotes.
struct BareText {
  std::string rule;     ///< of any string
  std::string end;      ///< stands behind a value, and in none
  bool python = false;  ///< True, False and None may be written for true, false and null
};

/// A property, and the rule of its bare values.
struct SchemaMember {
  std::string name, rule;
  bool required = false;
};
struct SchemaMembers {
  std::vector<SchemaMember> named;
  std::string others;  ///< the rule of values of any other name; empty: there are none
};

/// Turns schemas into rules of one grammar: see json_schema_grammar.
class SchemaConverter {
 public:
  /// Adds the rules of a schema. @return the name of its rule
  /// @param strict  whether what a grammar does not keep is refused; otherwise a part that holds
  ///                it allows more than the schema does, and less in the order of properties alone
  /// @throws SchemaRefusal
  std::string add(std::string_view text, bool strict);
  /// The same of a schema of objects: what it says of other values is passed over.
  std::string add_object(std::string_view text, bool strict);
  /// The properties of a schema of objects, whose values are bare.
  SchemaMembers add_members(std::string_view text, bool strict, const BareText& bare);
  /// Adds a rule. @return its name
  std::string define(const std::string& expression);
  /// The grammar of all rules, from `root` on.
  std::string text(const std::string& root) const;
  /// All rules but a root.
  std::string rules() const;

 private:
  struct ObjectWords {
    SchemaJson properties, further;  // further: of properties that are not named
    std::set<std::string> required;
  };
  enum Kind : unsigned { kText = 1, kStructure = 2 };  // of bare values

  [[noreturn]] static void refuse(const std::string& where, const std::string& what);
  void begin(std::string_view text, bool strict);
  std::string any_value();
  ObjectWords object_words(const SchemaJson& s, const std::string& where) const;
  std::optional<SchemaJson> object_schema(std::string& where) const;
  std::string member_rule(const SchemaJson& schema, const std::string& where);
  SchemaMembers members_of(const SchemaJson& s, const std::string& where);
  std::string value_literal(const SchemaJson& value, const std::string& where);
  std::string rule_of(const SchemaJson& schema, const std::string& where);
  std::string expression(const SchemaJson& s, const std::string& where);
  std::string expression_or_any(const SchemaJson& s, const std::string& where);
  const SchemaJson* target_of(const SchemaJson& reference) const;
  SchemaJson with_all_of(const SchemaJson& s) const;
  bool allows_objects_alone(const SchemaJson& s) const;
  static bool has_other_properties(const SchemaJson& s);
  bool is_full() const;
  void only(const SchemaJson& s, const std::string& where,
            const std::set<std::string>& words) const;
  std::string reference(const SchemaJson& to, const std::string& where);
  std::string values(const SchemaJson& s, const std::string& where);
  std::string several(const SchemaJson& list, const std::string& where, const std::string& word);
  void different_types(const SchemaJson& list, const std::string& where) const;
  std::string typed(const SchemaJson& s, const std::string& where);
  std::string of_type(const std::string& type, const SchemaJson& s, const std::string& where);
  std::int64_t count_of(const SchemaJson& s, const char* word, std::int64_t otherwise,
                        const std::string& where) const;
  std::string string_of(const SchemaJson& s, const std::string& where);
  std::optional<std::string> pattern_of(const SchemaJson& s, const std::string& where);
  std::string number_of(const std::string& type, const SchemaJson& s, const std::string& where);
  std::string array_of(const SchemaJson& s, const std::string& where);
  std::string object_of(const SchemaJson& s, const std::string& where);
  static std::string pointer_part(const std::string& name);
  void check_values() const;

  SchemaJson root_;
  bool strict_ = true;
  std::optional<BareText> bare_;
  bool is_bare_ = false;                                     // the values that are converted
  std::array<std::map<std::string, std::string>, 2> known_;  // rules by place in the schema;
                                                             // [1]: bare
  std::vector<std::string> rules_;
  // Rules that a value must hold values of, one list for each way to write it.
  using Ways = std::vector<std::vector<std::string>>;
  std::map<std::string, Ways> needs_;  // by the name of a rule in known_
  Ways ways_;                          // of the part that is being converted
  unsigned kinds_ = 0;                 // of the part that is being converted
  std::map<std::string, unsigned> kinds_of_;
  std::size_t depth_ = 0;
  std::int64_t characters_ = 0;                                 // of strings of bounded length
  std::uint64_t pattern_states_ = 0, pattern_transitions_ = 0;  // of strings with patterns
};

}  // namespace forerun::internal
