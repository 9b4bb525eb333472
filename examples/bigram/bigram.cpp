// A drafter of one's own: the word that most often followed the last one in this text. Registered
// under a name, it drafts wherever a drafter is named, and changes no text. usage: bigram MODEL
// [PROMPT]
#include <forerun/forerun.h>

#include <iostream>
#include <map>
#include <memory>

namespace {

using forerun::Token;

class Bigram final : public forerun::DraftSource {
 public:
  std::vector<std::vector<Token>> propose(std::span<const forerun::DraftRequest> texts) override {
    std::vector<std::vector<Token>> drafts;
    for (const forerun::DraftRequest& text : texts) drafts.push_back(draft(text));
    return drafts;
  }
  void forget(forerun::SequenceId id) override { texts_.erase(id); }

 private:
  struct Text {
    std::size_t read = 0;  // tokens of the text that are counted
    std::map<Token, std::map<Token, int>> followers;
    std::map<Token, Token> best;
  };

  std::vector<Token> draft(const forerun::DraftRequest& request) {
    Text& text = texts_[request.id];
    for (; text.read + 1 < request.text.size(); ++text.read) {
      const Token last = request.text[text.read], next = request.text[text.read + 1];
      auto& seen = text.followers[last];
      if (++seen[next] >= seen[text.best.try_emplace(last, next).first->second])
        text.best[last] = next;
    }
    std::vector<Token> out;
    Token last = request.text.back();
    for (auto at = text.best.find(last); out.size() < request.most && at != text.best.end();
         at = text.best.find(last)) {
      out.push_back(last = at->second);
    }
    return out;
  }

  std::map<forerun::SequenceId, Text> texts_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw forerun::UsageError("usage: bigram MODEL [PROMPT]");
  forerun::register_drafter({.name = "bigram", .argument = "", .help = "the likeliest next word"},
                            [](const auto&, const auto&) { return std::make_unique<Bigram>(); });
  const auto model = forerun::Model::load(argv[1], forerun::kAutoPrecision);
  const auto prompt = model.encode(argc > 2 ? argv[2] : "One, two, three, one, two, three, one,");
  const forerun::GenerateOptions options{.fixed_draft = true, .max_tokens = 48, .ignore_end = true};
  const auto plain = forerun::generate(model, forerun::Drafter(), prompt, options);
  const auto drafter = forerun::Drafter::load("bigram", model);
  const auto drafted = forerun::generate(model, drafter, prompt, options);
  std::cout << drafted.text << "\ntau " << drafted.statistics.tau() << ", "
            << (drafted.tokens == plain.tokens ? "the same text" : "ANOTHER TEXT") << "\n";
  return drafted.tokens == plain.tokens && drafted.statistics.tau() > 1.0 ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
