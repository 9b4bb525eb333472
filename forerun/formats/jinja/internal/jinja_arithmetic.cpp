#include <fmt/format.h>

#include <cmath>

#include "forerun/formats/jinja/internal/jinja_builtins.h"

namespace forerun::jinja {
namespace {

[[noreturn]] void beyond() { throw JinjaError("a whole number is too large"); }

JinjaValue whole_arithmetic(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &out) ? beyond(), out : out;
  if (sign == "-") return __builtin_sub_overflow(a, b, &out) ? beyond(), out : out;
  if (sign == "*") return __builtin_mul_overflow(a, b, &out) ? beyond(), out : out;
  if (sign == "**") {
    const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
    if (b < 0) return power;
    if (!(std::abs(power) < 9e15)) beyond();
    return static_cast<std::int64_t>(power);
  }
  if (b == 0) throw JinjaError("divided by zero");
  if (sign == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {
    if (sign == "%") return std::int64_t{0};
    return a == INT64_MIN ? beyond(), a : -a;
  }
  // Rounded down, as in Python.
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  if (sign == "//") return a / b - (down ? 1 : 0);
  return a % b + (down ? b : 0);
}

JinjaValue real_arithmetic(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0.0) throw JinjaError("divided by zero");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  return a - b * std::floor(a / b);
}

}  // namespace

JinjaValue jinja_arithmetic(const std::string& sign, const JinjaValue& a, const JinjaValue& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return real_arithmetic(sign, a.number(), b.number());
    return whole_arithmetic(sign, a.integer(), b.integer());
  }
  if (sign == "+" && a.is_string() && b.is_string()) {
    JinjaText out = *a.string();
    out.add(*b.string());
    return out;
  }
  if (sign == "+" && a.is_list() && b.is_list()) {
    JinjaList out = *a.list();
    out.insert(out.end(), b.list()->begin(), b.list()->end());
    return out;
  }
  if (sign == "*" && a.is_string() && b.is_int()) {
    const std::int64_t n = a.string()->empty() ? 0 : b.integer();
    JinjaText out;
    for (std::int64_t i = 0; i < n; ++i) out.add(*a.string());  // ends where a text is too long
    return out;
  }
  throw JinjaError(fmt::format("{} {} {} cannot be computed", a.type(), sign, b.type()));
}

}  // namespace forerun::jinja
