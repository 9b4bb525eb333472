// Statements.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/base/quote.h"
#include "forerun/formats/jinja/internal/jinja_builtins.h"
#include "forerun/formats/jinja/internal/jinja_evaluate.h"

namespace forerun::jinja {
namespace {

constexpr std::size_t kPerValue = 32;  // bytes of an element

}  // namespace

void JinjaRun::step(std::size_t line) {
  line_ = line;
  takes(1);
}

void JinjaRun::takes(std::size_t steps) {
  steps_ += steps;
  if (steps_ > options_.limits.steps) throw JinjaError("the template takes too many steps");
}

void JinjaRun::made(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > options_.limits.bytes) {
    throw JinjaError("the template makes more text than fits into memory: shorten the messages");
  }
}

void JinjaRun::made(const JinjaValue& v) {
  if (v.is_string()) made(v.string()->size());
  if (!v.is_list()) return;
  for (const JinjaValue& part : *v.list()) {
    made(kPerValue + (part.is_string() ? part.string()->size() : 0));
  }
}

JinjaText JinjaRun::render(const nlohmann::ordered_json& given, const nlohmann::ordered_json& own) {
  functions_.variables = jinja_functions(options_.now);
  globals_.outer = &functions_;
  for (const auto& [name, json] : given.items()) {
    globals_.variables[name] = JinjaValue::of(json, true);
  }
  for (const auto& [name, json] : own.items()) {
    globals_.variables[name] = JinjaValue::of(json, false);
  }
  JinjaText out;
  try {
    run(body_.statements, globals_, out);
  } catch (const JinjaRaised&) {
    throw;
  } catch (const JinjaError& e) {
    throw JinjaError(fmt::format("line {}: {}", line_, e.what()));
  }
  return out;
}

JinjaRun::Flow JinjaRun::run(const JinjaStatements& statements, JinjaScope& scope, JinjaText& out) {
  const Nested nested(*this);
  for (const JinjaStatement& s : statements) {
    step(s.line);
    if (const Flow flow = run(s, scope, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

JinjaRun::Flow JinjaRun::run(const JinjaStatement& s, JinjaScope& scope, JinjaText& out) {
  using Does = JinjaStatement::Kind;
  switch (s.kind) {
    case Does::kText:
      made(s.text.size());
      out.write(s.text);
      return Flow::kOn;
    case Does::kOutput: {
      const JinjaText text = value(*s.value, scope).text();
      made(text.size());
      out.add(text);
      return Flow::kOn;
    }
    case Does::kIf:
      return run(value(*s.value, scope).truthy() ? s.body : s.otherwise, scope, out);
    case Does::kFor:
      return loop(s, scope, out);
    case Does::kSet:
      set(s, scope);
      return Flow::kOn;
    case Does::kMacro:
      scope.variables[s.text] = macro(s);
      return Flow::kOn;
    case Does::kFilter:
      return filter(s, scope, out);
    case Does::kBreak:
      return Flow::kBreak;
    case Does::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

// What the body sets stays inside; a break out of it drops its text, as in Jinja2.
JinjaRun::Flow JinjaRun::filter(const JinjaStatement& s, JinjaScope& scope, JinjaText& out) {
  JinjaText body;
  JinjaScope inner{.variables = {}, .outer = &scope};
  if (const Flow flow = run(s.body, inner, body); flow != Flow::kOn) return flow;
  inner.variables[kFiltered] = std::move(body);
  const JinjaText text = value(*s.value, inner).text();
  made(text.size());
  out.add(text);
  return Flow::kOn;
}

void JinjaRun::bind(const std::vector<std::string>& names, const JinjaValue& v, JinjaScope& scope) {
  if (names.size() == 1) {
    scope.variables[names[0]] = v;
    return;
  }
  const JinjaList parts = v.elements();
  if (parts.size() != names.size()) {
    throw JinjaError(fmt::format("{} values for {} names", parts.size(), names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) scope.variables[names[i]] = parts[i];
}

JinjaList JinjaRun::loop_values(const JinjaStatement& s, JinjaScope& scope) {
  JinjaList all = value(*s.value, scope).elements();
  made(kPerValue * all.size());
  if (!s.condition) return all;
  JinjaList kept;
  for (const JinjaValue& v : all) {
    step(s.line);
    JinjaScope inner{.variables = {}, .outer = &scope};
    bind(s.names, v, inner);
    if (value(*s.condition, inner).truthy()) kept.push_back(v);
  }
  return kept;
}

namespace {

// The variable `loop`.
JinjaValue loop_state(const JinjaList& all, std::int64_t i) {
  const auto n = static_cast<std::int64_t>(all.size());
  const auto at = static_cast<std::size_t>(i);
  auto state = std::make_shared<JinjaValue::Map>();
  state->open = true;
  state->fields = {{"index", i + 1},
                   {"index0", i},
                   {"first", i == 0},
                   {"last", i + 1 == n},
                   {"length", n},
                   {"revindex", n - i},
                   {"revindex0", n - i - 1},
                   {"previtem", i > 0 ? all[at - 1] : JinjaValue::undefined("previtem")},
                   {"nextitem", i + 1 < n ? all[at + 1] : JinjaValue::undefined("nextitem")},
                   {"cycle", JinjaValue(JinjaFunction([i](JinjaArguments& a) {
                      if (a.values.empty()) throw JinjaError("cycle goes through nothing");
                      return a.values[static_cast<std::size_t>(i) % a.values.size()];
                    }))}};
  return {std::move(state)};
}

}  // namespace

JinjaRun::Flow JinjaRun::loop(const JinjaStatement& s, JinjaScope& scope, JinjaText& out) {
  if (++depth_ > options_.limits.depth) throw JinjaError("loops are nested too deep");
  const JinjaList all = loop_values(s, scope);
  for (std::size_t i = 0; i < all.size(); ++i) {
    step(s.line);
    JinjaScope inner{.variables = {}, .outer = &scope};
    bind(s.names, all[i], inner);
    inner.variables["loop"] = loop_state(all, static_cast<std::int64_t>(i));
    if (run(s.body, inner, out) == Flow::kBreak) break;
  }
  --depth_;
  return all.empty() ? run(s.otherwise, scope, out) : Flow::kOn;
}

void JinjaRun::set(const JinjaStatement& s, JinjaScope& scope) {
  JinjaValue v;
  if (s.value) {
    v = value(*s.value, scope);
  } else {
    JinjaText text;
    JinjaScope inner{.variables = {}, .outer = &scope};
    run(s.body, inner, text);
    v = std::move(text);
  }
  if (s.text.empty()) return bind(s.names, v, scope);
  for (JinjaScope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->variables.find(s.text);
    if (found == at->variables.end()) continue;
    JinjaValue::Map* map = found->second.map();
    if (map == nullptr || !map->open) break;
    // One that held itself would be written out without end, and never be freed.
    if (v.holds_namespace()) throw JinjaError("a namespace cannot hold a namespace");
    map->set(s.names[0], std::move(v));
    return;
  }
  throw JinjaError(fmt::format("{} is no namespace", quote(s.text, 40)));
}

JinjaValue JinjaRun::macro(const JinjaStatement& s) {
  return JinjaValue(
      JinjaFunction([this, &s](JinjaArguments& a) -> JinjaValue { return call_macro(s, a); }));
}

JinjaText JinjaRun::call_macro(const JinjaStatement& s, JinjaArguments& a) {
  if (++depth_ > options_.limits.depth) throw JinjaError("macros call each other too deep");
  if (a.values.size() > s.names.size()) {
    throw JinjaError(fmt::format("the macro {} takes {} arguments", quote(s.text), s.names.size()));
  }
  JinjaScope inner{.variables = {}, .outer = &globals_};
  for (std::size_t i = 0; i < s.names.size(); ++i) {
    const JinjaValue* given = a.get(i, s.names[i]);
    inner.variables[s.names[i]] = given != nullptr           ? *given
                                  : s.defaults[i] != nullptr ? value(*s.defaults[i], inner)
                                                             : JinjaValue::undefined(s.names[i]);
  }
  JinjaText out;
  run(s.body, inner, out);
  --depth_;
  return out;
}

}  // namespace forerun::jinja
