#include "forerun/api/diffuspec_options.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "forerun/api/drafter_options.h"

namespace forerun {
namespace {

constexpr std::string_view kMethod = "diffuspec";

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view takes) {
  refuse_option(kMethod, name, value, takes);
}

template <class Number>
Number number(std::string_view name, std::string_view value, Number least, Number most) {
  return option_number(kMethod, name, value, least, most);
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
  std::vector<std::string_view> names;
  for (const Option& option : known()) names.push_back(option.name);
  out.folder =
      take_options(kMethod, argument, names, [&](std::string_view name, std::string_view value) {
        const auto option = std::find_if(known().begin(), known().end(),
                                         [&](const Option& o) { return o.name == name; });
        option->set(out, name, value);
      });
  return out;
}

}  // namespace forerun
