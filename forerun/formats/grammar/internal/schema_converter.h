#pragma once

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
  /// Adds a rule. @return its name
  std::string define(const std::string& expression);
  /// The grammar of all rules, from `root` on.
  std::string text(const std::string& root) const;
  /// All rules but a root.
  std::string rules() const;

 private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& what);
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
  std::map<std::string, std::string> known_;  // rules by place in the schema
  std::vector<std::string> rules_;
  // Rules that a value must hold values of, one list for each way to write it.
  using Ways = std::vector<std::vector<std::string>>;
  std::map<std::string, Ways> needs_;  // by the name of a rule in known_
  Ways ways_;                          // of the part that is being converted
  std::size_t depth_ = 0;
  std::int64_t characters_ = 0;                                 // of strings of bounded length
  std::uint64_t pattern_states_ = 0, pattern_transitions_ = 0;  // of strings with patterns
};

}  // namespace forerun::internal
