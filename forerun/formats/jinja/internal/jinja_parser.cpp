// Statements.

#include <fmt/format.h>

#include <set>

#include "forerun/base/quote.h"
#include "forerun/formats/jinja/internal/jinja_expression_parser.h"

namespace forerun::jinja {
namespace {

using Does = JinjaStatement::Kind;

class JinjaParser : JinjaExpressionParser {
 public:
  explicit JinjaParser(std::vector<JinjaToken> tokens) : JinjaExpressionParser(std::move(tokens)) {}

  JinjaBody run() {
    JinjaBody out{statements({})};
    if (now().kind != Token::kEnd) fail("a block ends that did not begin");
    return out;
  }

 private:
  // Until a block that begins with one of the words, which is left to the caller: at the word.
  JinjaStatements statements(const std::set<std::string>& ends) {
    const Nested nested(*this);
    JinjaStatements out;
    for (;;) {
      const JinjaToken& token = now();
      if (token.kind == Token::kEnd) {
        if (!ends.empty()) fail(fmt::format("'{}' is missing", *ends.begin()));
        return out;
      }
      next();
      if (token.kind == Token::kText) {
        out.push_back({.kind = Does::kText, .line = token.line, .text = token.text});
      } else if (token.kind == Token::kOpenOutput) {
        out.push_back({.kind = Does::kOutput, .line = token.line, .value = tuple_or_value()});
        expect(Token::kCloseOutput, "}}");
      } else {
        if (ends.contains(now().text)) return out;
        block(out);
      }
    }
  }
  void close() { expect(Token::kCloseBlock, "%}"); }

  void block(JinjaStatements& out) {
    const std::size_t line = now().line;
    const std::string name = word();
    if (name == "if") return out.push_back(if_block(line));
    if (name == "for") return out.push_back(for_block(line));
    if (name == "set") return out.push_back(set_block(line));
    if (name == "macro") return out.push_back(macro(line));
    if (name == "filter") return out.push_back(filter_block(line));
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail(name + " stands outside loops");
      out.push_back({.kind = name == "break" ? Does::kBreak : Does::kContinue, .line = line});
      return close();
    }
    if (name == "generation" || name == "endgeneration") return close();  // marks of transformers
    fail(fmt::format("'{}' blocks are not supported", printable(name, 40)));
  }

  JinjaStatement if_block(std::size_t line) {
    JinjaStatement out{.kind = Does::kIf, .line = line, .value = expression()};
    close();
    out.body = statements({"elif", "else", "endif"});
    const std::size_t then = now().line;
    if (take("elif")) {
      const Nested nested(*this);
      out.otherwise.push_back(if_block(then));
      return out;
    }
    if (take("else")) {
      close();
      out.otherwise = statements({"endif"});
    }
    expect("endif");
    close();
    return out;
  }

  JinjaStatement for_block(std::size_t line) {
    JinjaStatement out{.kind = Does::kFor, .line = line};
    const bool bracket = take("(");
    do {
      out.names.push_back(word());
    } while (take(","));
    if (bracket) expect(")");
    expect("in");
    out.value = without_choice();
    if (take("if")) out.condition = expression();
    if (is("recursive")) fail("recursive loops are not supported");
    close();
    ++loops_;
    out.body = statements({"else", "endfor"});
    --loops_;
    if (take("else")) {
      close();
      out.otherwise = statements({"endfor"});
    }
    expect("endfor");
    close();
    return out;
  }

  JinjaStatement set_block(std::size_t line) {
    JinjaStatement out{.kind = Does::kSet, .line = line};
    out.names.push_back(word());
    if (take(".")) {
      out.text = out.names[0];
      out.names[0] = word();
    }
    while (take(",")) out.names.push_back(word());
    if (take("=")) {
      out.value = tuple_or_value();
      close();
      return out;
    }
    if (out.names.size() > 1) fail("'=' is missing");
    close();
    out.body = statements({"endset"});
    expect("endset");
    close();
    return out;
  }

  JinjaStatement filter_block(std::size_t line) {
    JinjaStatement out{.kind = Does::kFilter, .line = line, .value = filters_of_block()};
    close();
    out.body = statements({"endfilter"});
    expect("endfilter");
    close();
    return out;
  }

  JinjaStatement macro(std::size_t line) {
    JinjaStatement out{.kind = Does::kMacro, .line = line, .text = word()};
    expect("(");
    while (!take(")")) {
      if (!out.names.empty()) expect(",");
      if (take(")")) break;
      out.names.push_back(word());
      out.defaults.push_back(take("=") ? expression() : nullptr);
    }
    close();
    const std::size_t loops = std::exchange(loops_, 0);
    out.body = statements({"endmacro"});
    loops_ = loops;
    expect("endmacro");
    close();
    return out;
  }

  std::size_t loops_ = 0;
};

}  // namespace

JinjaBody parse_jinja_tokens(std::vector<JinjaToken> tokens) {
  return JinjaParser(std::move(tokens)).run();
}

}  // namespace forerun::jinja
