#include <ctime>

#include "forerun/base/quote.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

constexpr std::int64_t kMostRange = 100'000;

JinjaValue range(JinjaArguments& a) {
  const bool from = a.values.size() > 1;
  const std::int64_t begin = from ? a.values[0].integer() : 0;
  const std::int64_t end = a.at(from ? 1 : 0, "stop").integer();
  const std::int64_t by = a.values.size() > 2 ? a.values[2].integer() : 1;
  if (by == 0) throw JinjaError("range by steps of zero");
  JinjaList out;
  for (std::int64_t i = begin; by > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(out.size()) >= kMostRange) throw JinjaError("range is too long");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return out;
}

JinjaValue fields(JinjaArguments& a, bool open) {
  auto out = std::make_shared<JinjaValue::Map>();
  if (!a.values.empty() && a.values[0].is_map()) out->fields = a.values[0].map()->fields;
  for (auto& [name, value] : a.named) out->set(name, value);
  out->open = open;
  return out;
}

std::string date(std::int64_t now, const std::string& format) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[256];
  const std::size_t n = std::strftime(text, sizeof text, format.c_str(), &parts);
  return {text, n};
}

}  // namespace

std::map<std::string, JinjaValue> jinja_functions(std::optional<std::int64_t> now) {
  std::map<std::string, JinjaValue> out;
  const auto define = [&](const char* name, JinjaFunction f) {
    out[name] = JinjaValue(std::move(f));
  };
  define("range", range);
  define("namespace", [](JinjaArguments& a) { return fields(a, true); });
  define("dict", [](JinjaArguments& a) { return fields(a, false); });
  define("raise_exception", [](JinjaArguments& a) -> JinjaValue {
    throw JinjaRaised(printable(a.at(0, "message").text().bytes(), 500));
  });
  if (now) {
    define("strftime_now", [now = *now](JinjaArguments& a) {
      return JinjaValue(date(now, a.at(0, "format").text().bytes()));
    });
  }
  return out;
}

}  // namespace forerun::jinja
