#include "forerun/api/diffuspec_options.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <set>
#include <string_view>

#include "forerun/model.h"

namespace forerun {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view takes) {
  throw UsageError(
      fmt::format("diffuspec: '{}={}' is not possible; {} takes {}", name, value, name, takes));
}

template <class Number>
Number number(std::string_view name, std::string_view value, Number least, Number most) {
  Number out{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error == std::errc() && end == value.data() + value.size() && out >= least && out <= most) {
    return out;
  }
  refuse(name, value, fmt::format("a number from {} to {}", least, most));
}

PlaceControl control(std::string_view name, std::string_view value) {
  if (value == "measured") return PlaceControl::kMeasured;
  if (value == "paper") return PlaceControl::kPaper;
  if (value == "failfast") return PlaceControl::kFailFast;
  refuse(name, value, "measured, paper or failfast");
}

struct Option {
  std::string_view name;
  std::function<void(DiffuSpecArgument&, std::string_view name, std::string_view value)> set;
};

const std::vector<Option>& known() {
  constexpr std::size_t kOne = 1, kMostPlaces = 256, kMostContext = 1 << 20;
  static const std::vector<Option> all = {
      {"beams",
       [](auto& a, auto n, auto v) { a.options.search.beams = number<std::size_t>(n, v, 0, 64); }},
      {"mass", [](auto& a, auto n, auto v) { a.options.search.mass = number(n, v, 0.0, 1.0); }},
      {"candidates",
       [](auto& a, auto n, auto v) { a.options.search.most = number<std::size_t>(n, v, 1, 64); }},
      {"weight", [](auto& a, auto n, auto v) { a.weight = number(n, v, 0.0, 1.0); }},
      {"mix",
       [](auto& a, auto n, auto v) {
         if (v != "linear" && v != "log") refuse(n, v, "linear or log");
         a.options.search.linear = v == "linear";
       }},
      {"length", [](auto& a, auto n, auto v) { a.options.control = control(n, v); }},
      {"least", [](auto& a, auto n, auto v) { a.options.least = number(n, v, kOne, kMostPlaces); }},
      {"most", [](auto& a, auto n, auto v) { a.options.most = number(n, v, kOne, kMostPlaces); }},
      {"confidence",
       [](auto& a, auto n, auto v) { a.options.confidence = number(n, v, 0.0, 1.0); }},
      {"context",
       [](auto& a, auto n, auto v) { a.options.context = number(n, v, kOne, kMostContext); }},
      {"ngram", [](auto& a, auto n, auto v) {
         if (v.empty()) refuse(n, v, "an ARPA file");
         a.ngram = std::string(v);
       }}};
  return all;
}

}  // namespace

DiffuSpecArgument parse_diffuspec(const std::string& argument) {
  DiffuSpecArgument out;
  std::set<std::string_view> named;
  std::string_view rest = argument;
  // From the end: a path may hold a colon.
  for (std::size_t colon; (colon = rest.rfind(':')) != std::string_view::npos;) {
    const std::string_view piece = rest.substr(colon + 1);
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    const auto option = std::find_if(known().begin(), known().end(),
                                     [&](const Option& o) { return o.name == name; });
    if (option == known().end()) break;
    if (!named.insert(option->name).second) {
      throw UsageError(fmt::format("diffuspec: '{}' is given twice: give it once", name));
    }
    option->set(out, name, equals == std::string_view::npos ? "" : piece.substr(equals + 1));
    rest = rest.substr(0, colon);
  }
  out.folder = std::string(rest);
  return out;
}

}  // namespace forerun
