#pragma once

#include <map>
#include <string>

#include "forerun/formats/jinja/internal/jinja_ast.h"
#include "forerun/formats/jinja/jinja.h"

namespace forerun::jinja {

/// Variables; those of an inner scope hide those of an outer one.
struct JinjaScope {
  std::map<std::string, JinjaValue> variables;
  JinjaScope* outer = nullptr;
};

/// One rendering of a template.
class JinjaRun {
 public:
  JinjaRun(const JinjaBody& body, const JinjaOptions& options) : body_(body), options_(options) {}
  /// @throws JinjaError
  JinjaText render(const nlohmann::ordered_json& given, const nlohmann::ordered_json& own);

 private:
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

  // Counts what waits for what: a template cannot exhaust the stack.
  struct Nested {
    explicit Nested(JinjaRun& r) : run(r) {
      constexpr std::size_t kMost = 1000;
      if (++run.nested_ > kMost) throw JinjaError("the template is nested too deep");
    }
    ~Nested() { --run.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    JinjaRun& run;
  };

  void step(std::size_t line);
  void takes(std::size_t steps);
  void looks(const JinjaValue& value);  // at all of it
  void made(const JinjaValue& value);
  void made(std::size_t bytes);

  Flow run(const JinjaStatements& statements, JinjaScope& scope, JinjaText& out);
  Flow run(const JinjaStatement& statement, JinjaScope& scope, JinjaText& out);
  Flow loop(const JinjaStatement& statement, JinjaScope& scope, JinjaText& out);
  Flow filter(const JinjaStatement& statement, JinjaScope& scope, JinjaText& out);
  JinjaList loop_values(const JinjaStatement& statement, JinjaScope& scope);
  void set(const JinjaStatement& statement, JinjaScope& scope);
  void bind(const std::vector<std::string>& names, const JinjaValue& value, JinjaScope& scope);
  JinjaValue macro(const JinjaStatement& statement);
  JinjaText call_macro(const JinjaStatement& macro, JinjaArguments& arguments);

  JinjaValue value(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue evaluate(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue name(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue item(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue applied(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue slice(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue call(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue binary(const JinjaExpression& e, JinjaScope& scope);
  JinjaValue compare(const JinjaExpression& e, JinjaScope& scope);
  JinjaArguments arguments(const JinjaCallArguments& a, JinjaScope& scope);

  const JinjaBody& body_;
  const JinjaOptions& options_;
  JinjaScope functions_, globals_;
  std::size_t steps_ = 0, bytes_ = 0, depth_ = 0, nested_ = 0, line_ = 1;
};

}  // namespace forerun::jinja
