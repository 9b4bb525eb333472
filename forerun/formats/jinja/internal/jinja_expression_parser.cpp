#include "forerun/formats/jinja/internal/jinja_expression_parser.h"

#include <fmt/format.h>

#include "forerun/base/quote.h"

namespace forerun::jinja {
namespace {

constexpr std::size_t kMostParts = 10'000, kMostArguments = 64;

}  // namespace

void JinjaExpressionParser::fail(const std::string& what) const {
  throw JinjaError(fmt::format("line {}: {}", now().line, what));
}

bool JinjaExpressionParser::is(std::string_view text) const {
  return (now().kind == Token::kSign || now().kind == Token::kWord) && now().text == text;
}

bool JinjaExpressionParser::take(std::string_view text) {
  if (!is(text)) return false;
  ++at_;
  return true;
}

void JinjaExpressionParser::expect(std::string_view text) {
  if (!take(text)) fail(fmt::format("'{}' is missing before {}", text, quote(now().text, 40)));
}

void JinjaExpressionParser::expect(Token kind, const char* what) {
  if (next().kind != kind) {
    --at_;
    fail(fmt::format("{} is missing before {}", what, quote(now().text, 40)));
  }
}

std::string JinjaExpressionParser::word() {
  if (now().kind != Token::kWord) fail("a name is missing");
  return next().text;
}

JinjaExpressionPtr JinjaExpressionParser::make(Kind kind, std::string name) const {
  auto out = std::make_unique<JinjaExpression>();
  out->kind = kind;
  out->line = now().line;
  out->name = std::move(name);
  return out;
}

void JinjaExpressionParser::add(const JinjaExpressionPtr& to, JinjaExpressionPtr part) const {
  constexpr std::size_t kMost = 400;
  if (part) to->depth = std::max(to->depth, part->depth + 1);
  if (to->depth > kMost) fail("an expression is nested too deep, or too long");
  if (to->parts.size() >= kMostParts) fail("a list is too long");
  to->parts.push_back(std::move(part));
}

void JinjaExpressionParser::add_arguments(const JinjaExpressionPtr& to) {
  to->arguments = arguments();
  for (const auto& v : to->arguments.values) to->depth = std::max(to->depth, v->depth + 1);
  for (const auto& [name, v] : to->arguments.named) to->depth = std::max(to->depth, v->depth + 1);
}

JinjaExpressionPtr JinjaExpressionParser::constant(JinjaValue value) const {
  JinjaExpressionPtr out = make(Kind::kValue);
  out->value = std::move(value);
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::tuple_or_value() {
  JinjaExpressionPtr first = expression();
  if (!is(",")) return first;
  JinjaExpressionPtr out = made(Kind::kList, "", std::move(first));
  while (take(",")) {
    if (now().kind == Token::kCloseBlock || now().kind == Token::kCloseOutput) break;
    add(out, expression());
  }
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::expression() {
  const Nested nested(*this);
  JinjaExpressionPtr out = without_choice();
  while (take("if")) {
    JinjaExpressionPtr condition = without_choice();
    JinjaExpressionPtr otherwise = take("else") ? expression() : nullptr;
    out = made(Kind::kChoice, "", std::move(out), std::move(condition), std::move(otherwise));
  }
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::without_choice() {
  JinjaExpressionPtr out = conjunction();
  while (take("or")) out = made(Kind::kBinary, "or", std::move(out), conjunction());
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::conjunction() {
  JinjaExpressionPtr out = negation();
  while (take("and")) out = made(Kind::kBinary, "and", std::move(out), negation());
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::negation() {
  if (!take("not")) return comparison();
  const Nested nested(*this);
  return made(Kind::kNot, "", negation());
}

JinjaExpressionPtr JinjaExpressionParser::comparison() {
  JinjaExpressionPtr out = sum();
  JinjaExpressionPtr chain;
  for (;;) {
    std::string sign;
    for (const char* s : {"==", "!=", "<", ">", "<=", ">=", "in"}) {
      if (is(s)) sign = s;
    }
    if (sign.empty() && is("not") && tokens_[at_ + 1].text == "in") {
      ++at_;
      sign = "not in";
    }
    if (sign.empty()) return chain ? std::move(chain) : std::move(out);
    ++at_;
    if (!chain) chain = made(Kind::kCompare, "", std::move(out));
    chain->names.push_back(sign);
    add(chain, sum());
  }
}

JinjaExpressionPtr JinjaExpressionParser::sum() {
  return chain_of({"+", "-"}, [&] { return joined(); });
}

JinjaExpressionPtr JinjaExpressionParser::joined() {
  return chain_of({"~"}, [&] { return product(); });
}

JinjaExpressionPtr JinjaExpressionParser::product() {
  return chain_of({"*", "/", "//", "%"}, [&] { return power(); });
}

JinjaExpressionPtr JinjaExpressionParser::power() {
  return chain_of({"**"}, [&] { return unary(true); });
}

JinjaExpressionPtr JinjaExpressionParser::unary(bool filters) {
  const Nested nested(*this);
  JinjaExpressionPtr out;
  if (is("-") || is("+")) {
    const std::string sign = next().text;
    out = made(Kind::kUnary, sign, unary(false));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return filters ? filtered(std::move(out)) : std::move(out);
}

JinjaExpressionPtr JinjaExpressionParser::primary() {
  const JinjaToken token = next();
  switch (token.kind) {
    case Token::kString: {
      std::string text = token.text;
      while (now().kind == Token::kString) text += next().text;
      return constant(std::move(text));
    }
    case Token::kInteger:
    case Token::kFloat:
      return number(token);
    case Token::kWord:
      if (token.text == "true" || token.text == "True") return constant(true);
      if (token.text == "false" || token.text == "False") return constant(false);
      if (token.text == "none" || token.text == "None") return constant(nullptr);
      return make(Kind::kName, token.text);
    case Token::kSign:
      if (token.text == "(") return bracket();
      if (token.text == "[") return list("]");
      if (token.text == "{") return map();
      break;
    default:
      break;
  }
  --at_;
  fail(fmt::format("a value is missing before {}", quote(token.text, 40)));
}

JinjaExpressionPtr JinjaExpressionParser::number(const JinjaToken& token) const {
  if (token.kind == Token::kFloat) return constant(std::stod(token.text));
  return constant(static_cast<std::int64_t>(std::stoll(token.text)));
}

JinjaExpressionPtr JinjaExpressionParser::bracket() {
  if (take(")")) return make(Kind::kList);
  JinjaExpressionPtr first = expression();
  if (take(")")) return first;
  expect(",");
  JinjaExpressionPtr out = list(")");
  add(out, std::move(first));
  std::rotate(out->parts.begin(), out->parts.end() - 1, out->parts.end());
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::list(const char* end) {
  JinjaExpressionPtr out = make(Kind::kList);
  while (!take(end)) {
    add(out, expression());
    if (!is(end)) expect(",");
  }
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::map() {
  JinjaExpressionPtr out = make(Kind::kMap);
  while (!take("}")) {
    add(out, expression());
    expect(":");
    add(out, expression());
    if (!is("}")) expect(",");
  }
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::postfix(JinjaExpressionPtr out) {
  for (;;) {
    if (take(".")) {
      out = made(Kind::kAttribute, now().kind == Token::kInteger ? next().text : word(),
                 std::move(out));
    } else if (take("[")) {
      out = subscript(std::move(out));
    } else if (is("(")) {
      JinjaExpressionPtr call = made(Kind::kCall, "", std::move(out));
      add_arguments(call);
      out = std::move(call);
    } else {
      return out;
    }
  }
}

JinjaExpressionPtr JinjaExpressionParser::subscript(JinjaExpressionPtr of) {
  JinjaExpressionPtr parts[3];
  std::size_t colons = 0;
  while (!take("]")) {
    if (take(":")) {
      if (++colons > 2) fail("a slice has more than three parts");
    } else {
      if (parts[colons]) fail("']' is missing");
      parts[colons] = expression();
    }
  }
  if (colons == 0 && !parts[0]) fail("an index is missing");
  if (colons == 0) return made(Kind::kItem, "", std::move(of), std::move(parts[0]));
  return made(Kind::kSlice, "", std::move(of), std::move(parts[0]), std::move(parts[1]),
              std::move(parts[2]));
}

JinjaCallArguments JinjaExpressionParser::arguments() {
  expect("(");
  JinjaCallArguments out;
  while (!take(")")) {
    if (now().kind == Token::kWord && tokens_[at_ + 1].kind == Token::kSign &&
        tokens_[at_ + 1].text == "=") {
      const std::string name = word();
      ++at_;
      out.named.emplace_back(name, expression());
    } else {
      if (is("*") || is("**")) fail("lists of arguments are not supported");
      out.values.push_back(expression());
    }
    if (!is(")")) expect(",");
    // map('map', ...) goes through as many calls as it has arguments.
    if (out.values.size() + out.named.size() > kMostArguments) fail("too many arguments");
  }
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::filter(JinjaExpressionPtr of) {
  const std::string name = word();
  if (!is_jinja_filter(name)) fail(fmt::format("the filter {} is not supported", quote(name)));
  JinjaExpressionPtr out = made(Kind::kFilter, name, std::move(of));
  if (is("(")) add_arguments(out);
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::filters_of_block() {
  JinjaExpressionPtr out = filter(made(Kind::kName, kFiltered));
  while (take("|")) out = filter(std::move(out));
  return out;
}

JinjaExpressionPtr JinjaExpressionParser::filtered(JinjaExpressionPtr out) {
  for (;;) {
    if (take("|")) {
      out = filter(std::move(out));
    } else if (take("is")) {
      out = test(std::move(out));
    } else if (is("(") || is(".") || is("[")) {
      out = postfix(std::move(out));
    } else {
      return out;
    }
  }
}

JinjaExpressionPtr JinjaExpressionParser::test(JinjaExpressionPtr of) {
  const bool negated = take("not");
  const std::string name = word();
  if (!is_jinja_test(name)) fail(fmt::format("the test {} is not supported", quote(name)));
  JinjaExpressionPtr out = made(Kind::kTest, name, std::move(of));
  out->negated = negated;
  if (is("(")) {
    add_arguments(out);
  } else if (is_value() && !is("else") && !is("or") && !is("and") && !is("is") && !is("if") &&
             !is("in") && !is("not")) {
    out->arguments.values.push_back(postfix(primary()));
  }
  return out;
}

bool JinjaExpressionParser::is_value() const {
  const Token kind = now().kind;
  return kind == Token::kWord || kind == Token::kString || kind == Token::kInteger ||
         kind == Token::kFloat || is("[") || is("{");
}

}  // namespace forerun::jinja
