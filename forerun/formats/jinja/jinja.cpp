#include "forerun/formats/jinja/jinja.h"

#include <nlohmann/json.hpp>

#include "forerun/base/utf8.h"
#include "forerun/formats/jinja/internal/jinja_evaluate.h"

namespace forerun {

Result<JinjaTemplate> JinjaTemplate::parse(std::string_view text) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  if (text.size() > kMost) return Error{"the template is longer than 1 MiB"};
  try {
    std::vector<jinja::JinjaToken> tokens = jinja::jinja_tokens(replace_invalid_utf8(text));
    std::set<std::string, std::less<>> words;
    for (const jinja::JinjaToken& t : tokens) {
      if (t.kind == jinja::JinjaToken::Kind::kWord) words.insert(t.text);
    }
    jinja::JinjaBody body = jinja::parse_jinja_tokens(std::move(tokens));
    body.words = std::move(words);
    return JinjaTemplate(std::make_shared<const jinja::JinjaBody>(std::move(body)));
  } catch (const jinja::JinjaError& e) {
    return Error{e.what()};
  }
}

Result<MarkedText> JinjaTemplate::render(const nlohmann::ordered_json& given,
                                         const nlohmann::ordered_json& own,
                                         const JinjaOptions& options) const {
  try {
    const jinja::JinjaText out = jinja::JinjaRun(*body_, options).render(given, own);
    return MarkedText{out.bytes(), out.given()};
  } catch (const jinja::JinjaError& e) {
    return Error{e.what()};
  }
}

bool JinjaTemplate::mentions(std::string_view word) const { return body_->words.contains(word); }

}  // namespace forerun
