#pragma once

#include <forerun/generate_options.h>
#include <forerun/model.h>
#include <nanobind/stl/map.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace forerun::python {

/// The options of a text as Python has them: with a form, which a model turns into a grammar.
struct TextOptions : GenerateOptions {
  std::optional<std::string> json_schema;          ///< the text is JSON of it
  std::optional<std::string> regex;                ///< it matches this as a whole
  std::optional<std::vector<std::string>> choice;  ///< it is one of these

  /// The option that holds the text to a form; "": none does.
  /// @throws UsageError  several do
  std::string form() const {
    std::string name;
    const auto take = [&name](bool given, const char* option) {
      if (!given) return;
      if (!name.empty()) {
        throw UsageError(name + " and " + option + ": a text has one form, give one");
      }
      name = option;
    };
    take(json_schema.has_value(), "json_schema");
    take(regex.has_value(), "regex");
    take(choice.has_value(), "choice");
    return name;
  }

  /// For this model. A new form takes tenths of a second: call it without the interpreter's lock.
  /// @throws UsageError  a form that would not be kept in full: the message names the part
  GenerateOptions of(const Model& model) const {
    GenerateOptions out = *this;
    const std::string name = form();
    if (name.empty()) return out;
    if (ignore_end) {
      throw UsageError(name + " and ignore_end: the text ends where its form does");
    }
    out.changes.grammar = json_schema ? model.json_grammar(*json_schema)
                          : regex     ? model.regex_grammar(*regex)
                                      : model.choice_grammar(*choice);
    return out;
  }
};

/// A JSON schema, given as a mapping or as its JSON.
using SchemaField = Marked<std::optional<std::string>, struct SchemaTag>;

template <>
struct Field<SchemaField> {
  static constexpr const char* annotation() { return "Mapping[str, object] | str"; }
  static constexpr const char* returned() { return "str | None"; }
  static std::string from(const std::string& name, nb::handle value) {
    std::string json;
    if (nb::try_cast(value, json)) return json;
    const auto shown = [&] { return name + ": " + nb::cast<std::string>(nb::repr(value)); };
    if (!nb::isinstance(value, nb::module_::import_("collections.abc").attr("Mapping"))) {
      throw UsageError(shown() + " is no schema: give a mapping, or a str of JSON");
    }
    try {
      return nb::cast<std::string>(
          nb::module_::import_("forerun._json").attr("json_of")(value, true));
    } catch (const nb::python_error& e) {
      // What is too deep for json is too deep for repr.
      if (e.matches(PyExc_RecursionError)) throw UsageError(name + ": is nested too deeply");
      // Others, as KeyboardInterrupt and MemoryError, say nothing about the schema.
      if (!e.matches(PyExc_TypeError) && !e.matches(PyExc_ValueError)) throw;
      throw UsageError(shown() + " is no JSON: " + nb::cast<std::string>(nb::str(e.value())));
    }
  }
  static nb::object to(const SchemaField& value) {
    return value.of ? nb::cast(*value.of) : nb::none();
  }
};

/// What may be left out: it appears as what it holds.
template <class T>
struct Field<std::optional<T>> {
  static constexpr const char* annotation() { return Field<T>::annotation(); }
  static std::string returned() { return std::string(Field<T>::returned()) + " | None"; }
  static std::optional<T> from(const std::string& name, nb::handle value) {
    return Field<T>::from(name, value);
  }
  static nb::object to(const std::optional<T>& value) {
    return value ? Field<T>::to(*value) : nb::none();
  }
};

/// A mapping from tokens to what is added.
template <>
struct Field<std::vector<std::pair<Token, float>>> {
  static constexpr const char* annotation() { return "Mapping[int, float]"; }
  static constexpr const char* returned() { return "dict[int, float]"; }
  static std::vector<std::pair<Token, float>> from(const std::string& name, nb::handle value) {
    std::map<Token, float> out;
    bool is = nb::try_cast(value, out);
    if (is) {  // of keys that convert: nobody means the digits of a string
      for (const nb::handle key : nb::steal<nb::list>(PyMapping_Keys(value.ptr()))) {
        is = is && integer_of(key).is_valid();
      }
    }
    if (!is) {
      throw UsageError(name + ": " + nb::cast<std::string>(nb::repr(value)) + " is no " +
                       annotation());
    }
    return {out.begin(), out.end()};
  }
  static nb::object to(const std::vector<std::pair<Token, float>>& value) {
    return nb::cast(std::map<Token, float>(value.begin(), value.end()));
  }
};

template <>
struct Fields<TextOptions> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = TextOptions;
    visit(
        "temperature", [](O & o) -> auto& { return o.sampling.temperature; }, "0: greedy");
    visit(
        "top_k", [](O& o) { return LimitField{o.sampling.top_k}; }, "0 and -1: all");
    visit(
        "top_p", [](O & o) -> auto& { return o.sampling.top_p; }, "1: all");
    visit(
        "min_p", [](O & o) -> auto& { return o.sampling.min_p; }, "0: all");
    visit(
        "logit_bias", [](O & o) -> auto& { return o.changes.bias; }, "added to logits, by token");
    visit(
        "presence_penalty", [](O & o) -> auto& { return o.changes.presence_penalty; },
        "subtracted from logits of tokens that the outputs hold");
    visit(
        "frequency_penalty", [](O & o) -> auto& { return o.changes.frequency_penalty; },
        "the same for every time that they hold them");
    visit(
        "repetition_penalty", [](O & o) -> auto& { return o.changes.repetition_penalty; },
        "divides logits of tokens in prompt or outputs; 1: none");
    visit(
        "rule", [](O & o) -> auto& { return o.rule; }, "the coupling of drafts and outputs");
    visit(
        "max_draft", [](O & o) -> auto& { return o.max_draft; }, "drafts a round at most");
    visit(
        "fixed_draft", [](O & o) -> auto& { return o.fixed_draft; },
        "always draft that many, even if it is slower");
    visit(
        "max_tokens", [](O & o) -> auto& { return o.max_tokens; }, "outputs at most");
    visit(
        "seed", [](O& o) { return SeedField{o.seed}; },
        "of all random numbers; None: one that is drawn");
    visit(
        "request", [](O & o) -> auto& { return o.request; }, "separates generations of one seed");
    visit(
        "stop", [](O & o) -> auto& { return o.stop; },
        "strings, or one, that end the text and are cut from it");
    visit(
        "json_schema", [](O& o) { return SchemaField{o.json_schema}; },
        "the text is JSON of this schema, a mapping or its JSON");
    visit(
        "regex", [](O & o) -> auto& { return o.regex; },
        "the text is what this regular expression matches as a whole");
    visit(
        "choice", [](O & o) -> auto& { return o.choice; }, "the text is one of these");
    visit(
        "ignore_end", [](O & o) -> auto& { return o.ignore_end; },
        "continue after end-of-sequence tokens");
    visit(
        "trace", [](O & o) -> auto& { return o.trace; },
        "keep the rounds of the first text; in an engine: report every round");
    visit(
        "batch_size", [](O & o) -> auto& { return o.batch_size; },
        "texts of a batch at a time; 0: all");
  }
};

}  // namespace forerun::python
