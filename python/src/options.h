#pragma once

#include <forerun/common.h>
#include <forerun/core/rule.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "path.h"

namespace forerun::python {

namespace nb = nanobind;

/// An int of what stands for one exactly: of no string, float or array; else no object.
/// @throws nb::python_error  what says nothing about the value, as KeyboardInterrupt
inline nb::object integer_of(nb::handle value) {
  PyObject* integer = PyNumber_Index(value.ptr());
  if (integer == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) {
      throw nb::python_error();
    }
    PyErr_Clear();
  }
  return nb::steal(integer);
}

/// A reference to a field that Python gives in a way of its own, which the tag tells.
template <class T, class Tag>
struct Marked {
  T& of;
  void operator=(const T& value) const { of = value; }
  void operator=(const Marked& other) const { of = other.of; }
};
/// The path of a file or folder.
using PathField = Marked<std::string, struct PathTag>;
/// A number of which -1 stands for 0, no limit, as in other libraries.
using LimitField = Marked<std::uint32_t, struct LimitTag>;
/// A seed; None is one that is drawn, for the caller to read.
using SeedField = Marked<std::uint64_t, struct SeedTag>;

/// A seed that no one chose, small enough for a number of JSON.
inline std::uint64_t drawn_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 21 ^ random()) & ((std::uint64_t{1} << 53) - 1);
}

/// How a type of a field appears in Python: its annotations, given and returned, and the conversion
/// from an object. Types of enumerations have their names. `from` throws UsageError with what was
/// expected. None stands for the default, or what `of_none` returns.
template <class T>
struct Field {
  static constexpr const char* annotation() {
    if constexpr (std::is_same_v<T, bool>) return "bool";
    if constexpr (std::is_integral_v<T>) return "int";
    if constexpr (std::is_floating_point_v<T>) return "float";
    if constexpr (std::is_same_v<T, std::string>) return "str";
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "Sequence[int]";
    return "Sequence[float]";
  }
  static constexpr const char* returned() { return annotation(); }
  static T from(const std::string& name, nb::handle value) {
    T out;
    if (!nb::try_cast<T>(value, out) || !meant(value)) {
      throw UsageError(name + ": " + nb::cast<std::string>(nb::repr(value)) + refusal(value));
    }
    return out;
  }
  static nb::object to(const T& value) { return nb::cast(value); }

 private:
  static constexpr bool kInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

  // Of what converts: nobody means the digits of a string, or its letters as a sequence.
  static bool meant(nb::handle value) {
    if constexpr (kInteger) return integer_of(value).is_valid();
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      for (const nb::handle one : value) {
        if (!integer_of(one).is_valid()) return false;
      }
    }
    return std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
           !nb::isinstance<nb::str>(value);
  }
  static std::string refusal(nb::handle value) {
    if constexpr (kInteger) {
      const nb::object integer = integer_of(value);
      const bool negative = integer.is_valid() && integer < nb::int_(0);
      if (integer.is_valid() && !negative) {
        return " is too large; at most " + std::to_string(std::numeric_limits<T>::max());
      }
      if (negative && std::is_signed_v<T>) {
        return " is too small; at least " + std::to_string(std::numeric_limits<T>::min());
      }
    }
    return std::string(" is no ") + annotation() +
           (kInteger && std::is_unsigned_v<T> ? " from 0 on" : "");
  }
};

/// Strings; one may stand alone.
template <>
struct Field<std::vector<std::string>> {
  static constexpr const char* annotation() { return "str | Sequence[str]"; }
  static constexpr const char* returned() { return "list[str]"; }
  static std::vector<std::string> from(const std::string& name, nb::handle value) {
    std::string one;
    if (nb::try_cast(value, one)) return {one};
    std::vector<std::string> out;
    if (nb::try_cast(value, out)) return out;
    throw UsageError(name + ": " + nb::cast<std::string>(nb::repr(value)) + " is no " +
                     annotation());
  }
  static nb::object to(const std::vector<std::string>& value) { return nb::cast(value); }
};

/// A marked field that appears as the type below it.
template <class T, class Tag>
struct Field<Marked<T, Tag>> {
  static constexpr const char* annotation() { return Field<T>::annotation(); }
  static constexpr const char* returned() { return Field<T>::returned(); }
  static T from(const std::string& name, nb::handle value) {
    if constexpr (std::is_same_v<Marked<T, Tag>, LimitField>) {
      const nb::object integer = integer_of(value);
      if (integer.is_valid() && integer.equal(nb::int_(-1))) return 0;
    }
    return Field<T>::from(name, value);
  }
  static T of_none() requires std::is_same_v<Marked<T, Tag>, SeedField> { return drawn_seed(); }
  static nb::object to(const Marked<T, Tag>& value) { return Field<T>::to(value.of); }
};

template <>
struct Field<PathField> {
  static constexpr const char* annotation() { return "str | os.PathLike[str]"; }
  static constexpr const char* returned() { return "str"; }
  static std::string from(const std::string& name, nb::handle value) {
    FilePath out;
    if (nb::try_cast(value, out)) return out.bytes;
    throw UsageError(name + ": " + nb::cast<std::string>(nb::repr(value)) + " is no path");
  }
  static nb::object to(const PathField& value) { return nb::cast(FilePath{value.of}); }
};

template <>
struct Field<Rule> {
  static constexpr const char* annotation() { return "str"; }
  static constexpr const char* returned() { return annotation(); }
  static Rule from(const std::string& name, nb::handle value) {
    const auto text = Field<std::string>::from(name, value);
    const auto rule = rule_from_name(text);
    if (!rule) {
      throw UsageError(name + ": no rule '" + text +
                       "'. Of texts: maximal, block, match, shared-noise, typical, "
                       "ratio-on-search; of images: maximal, block; of image tokens: stepwise, "
                       "path, paper, code");
    }
    return *rule;
  }
  static nb::object to(Rule rule) { return nb::cast(std::string(name_of(rule))); }
};

/// The annotation of a field in a signature: stubs import what has its module before it.
template <class Value>
std::string signed_as() {
  std::string out = Field<Value>::annotation();
  for (const std::string name : {"Mapping[", "Sequence["}) {
    const std::size_t at = out.find(name);
    if (at != out.npos) out.insert(at, "collections.abc.");
  }
  return out + " | None";
}

/// Every field of an options struct, declared once: `visit(name, access, help)`, where
/// access(options) is a reference to the field, plain or Marked.
template <class Options>
struct Fields;

/// Sets a field. @throws UsageError  a value of another type
template <class Options, class Access>
void set_field(Options& options, const char* name, Access access, nb::handle value) {
  using Of = Field<std::remove_cvref_t<decltype(access(options))>>;
  if (!value.is_none()) {
    access(options) = Of::from(name, value);
  } else if constexpr (requires { Of::of_none(); }) {
    access(options) = Of::of_none();
  } else {
    Options defaults;
    access(options) = access(defaults);
  }
}

/// Sets the fields named in `given`.
/// @throws UsageError  an unknown name, or a value of another type
template <class Options>
void set_fields(Options& options, const nb::dict& given) {
  nb::list known;
  Fields<Options>::each([&](const char* name, auto access, const char*) {
    known.append(name);
    if (given.contains(name)) set_field(options, name, access, given[name]);
  });
  for (auto [key, value] : given) {
    if (nb::cast<bool>(known.attr("__contains__")(key))) continue;
    const nb::object refusal = nb::module_::import_("forerun._names").attr("no_option")(key, known);
    throw UsageError(nb::cast<std::string>(refusal));
  }
}

/// Binds an options struct: keywords of its constructor, attributes, a representation.
template <class Options>
void bind_options(nb::module_& m, const char* class_name, const char* doc) {
  nb::class_<Options> bound(m, class_name, doc);
  std::string signature = "def __init__(self, *";
  Options defaults;
  Fields<Options>::each([&](const char* name, auto access, const char* help) {
    using Value = std::remove_cvref_t<decltype(access(defaults))>;
    signature += std::string(", ") + name + ": " + signed_as<Value>() + " = " +
                 nb::cast<std::string>(nb::repr(Field<Value>::to(access(defaults))));
    bound.def_prop_rw(
        name, [access](Options& o) { return Field<Value>::to(access(o)); },
        [access, name](Options& o, nb::handle value) { set_field(o, name, access, value); }, help,
        nb::for_setter(nb::arg("value").none()),
        nb::for_getter(nb::sig(
            (std::string("def ") + name + "(self) -> " + Field<Value>::returned()).c_str())),
        nb::for_setter(nb::sig(
            (std::string("def ") + name + "(self, value: " + signed_as<Value>() + ", /) -> None")
                .c_str())));
  });
  bound.def(
      "__init__",
      [](Options* self, const nb::kwargs& given) {
        Options options;
        set_fields(options, given);
        new (self) Options(std::move(options));
      },
      nb::sig((signature + ") -> None").c_str()));
  bound.def("__repr__", [class_name](Options& o) {
    std::string text = std::string(class_name) + "(";
    Fields<Options>::each([&](const char* name, auto access, const char*) {
      using Value = std::remove_cvref_t<decltype(access(o))>;
      text += (text.back() == '(' ? "" : ", ") + std::string(name) + "=" +
              nb::cast<std::string>(nb::repr(Field<Value>::to(access(o))));
    });
    return text + ")";
  });
  bound.def("__getstate__", [](Options& o) {
    nb::dict state;
    Fields<Options>::each([&](const char* name, auto access, const char*) {
      state[name] = Field<std::remove_cvref_t<decltype(access(o))>>::to(access(o));
    });
    return state;
  });
  bound.def("__setstate__", [](Options& self, const nb::dict& state) {
    Options options;
    set_fields(options, state);
    new (&self) Options(std::move(options));
  });
}

}  // namespace forerun::python
