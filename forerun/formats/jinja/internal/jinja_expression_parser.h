#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/formats/jinja/internal/jinja_ast.h"

namespace forerun::jinja {

/// Reads the tokens of a template; expressions here, statements in what derives from it. Every
/// function ends behind what it has read. All throw JinjaError.
class JinjaExpressionParser {
 protected:
  using Token = JinjaToken::Kind;
  using Kind = JinjaExpression::Kind;

  explicit JinjaExpressionParser(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

  const JinjaToken& now() const { return tokens_[at_]; }
  const JinjaToken& next() { return tokens_[at_++]; }
  [[noreturn]] void fail(const std::string& what) const;
  bool is(std::string_view text) const;
  bool take(std::string_view text);
  void expect(std::string_view text);
  void expect(Token kind, const char* what);
  std::string word();

  // Counts what is inside what: a template cannot exhaust the stack.
  struct Nested {
    explicit Nested(JinjaExpressionParser& p) : parser(p) {
      constexpr std::size_t kMost = 100;
      if (++parser.nested_ > kMost) parser.fail("nested too deep");
    }
    ~Nested() { --parser.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    JinjaExpressionParser& parser;
  };

  // A value, or several between commas.
  JinjaExpressionPtr tuple_or_value();
  JinjaExpressionPtr expression();
  // Without `a if b`.
  JinjaExpressionPtr without_choice();
  // The filters of a filter block, the first one without a bar before it.
  JinjaExpressionPtr filters_of_block();

 private:
  JinjaExpressionPtr make(Kind kind, std::string name = "") const;
  void add(const JinjaExpressionPtr& to, JinjaExpressionPtr part) const;
  // A call, filter or test with its arguments.
  void add_arguments(const JinjaExpressionPtr& to);
  template <class... Parts>
  JinjaExpressionPtr made(Kind kind, std::string name, Parts... parts) const {
    JinjaExpressionPtr out = make(kind, std::move(name));
    (add(out, std::move(parts)), ...);
    return out;
  }
  JinjaExpressionPtr constant(JinjaValue value) const;
  JinjaExpressionPtr conjunction();
  JinjaExpressionPtr negation();
  JinjaExpressionPtr comparison();
  template <class Below>
  JinjaExpressionPtr chain_of(std::initializer_list<const char*> signs, Below&& below) {
    JinjaExpressionPtr out = below();
    for (;;) {
      const auto sign = std::find_if(signs.begin(), signs.end(), [&](auto* s) { return is(s); });
      if (sign == signs.end() || now().kind != Token::kSign) return out;
      ++at_;
      out = made(Kind::kBinary, *sign, std::move(out), below());
    }
  }
  JinjaExpressionPtr sum();
  JinjaExpressionPtr joined();
  JinjaExpressionPtr product();
  JinjaExpressionPtr power();
  JinjaExpressionPtr unary(bool filters);
  JinjaExpressionPtr primary();
  JinjaExpressionPtr number(const JinjaToken& token) const;
  JinjaExpressionPtr bracket();
  JinjaExpressionPtr list(const char* end);
  JinjaExpressionPtr map();
  JinjaExpressionPtr postfix(JinjaExpressionPtr out);
  JinjaExpressionPtr subscript(JinjaExpressionPtr of);
  JinjaCallArguments arguments();
  JinjaExpressionPtr filtered(JinjaExpressionPtr out);
  JinjaExpressionPtr filter(JinjaExpressionPtr of);
  JinjaExpressionPtr test(JinjaExpressionPtr of);
  bool is_value() const;

  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0, nested_ = 0;
};

}  // namespace forerun::jinja
