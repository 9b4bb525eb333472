#include "forerun/formats/grammar/grammar_compiler.h"

#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "forerun/base/harmony_text.h"
#include "forerun/formats/grammar/internal/channels.h"

// xgrammar is compiled to leave its messages to its user: warnings say nothing that is not checked
// here, errors are exceptions without a place in its sources.
namespace xgrammar {
[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message);
void LogMessageImpl(const std::string&, int, int, const std::string&);
void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}
void LogMessageImpl(const std::string&, int, int, const std::string&) {}
}  // namespace xgrammar

namespace forerun {
namespace {

constexpr std::int64_t kCacheBytes = std::int64_t{64} << 20;
constexpr std::size_t kKeptMasks = 64;  // of the last tokens

class TokenWalk final : public GrammarWalk {
 public:
  explicit TokenWalk(const xgrammar::CompiledGrammar& grammar)
      : matcher_(grammar),
        vocab_(grammar.GetTokenizerInfo().GetVocabSize()),
        info_(grammar.GetTokenizerInfo()),
        masks_(1) {}

  AllowedTokens after(std::span<const Token> outputs) override {
    const auto parted =
        std::mismatch(accepted_.begin(), accepted_.end(), outputs.begin(), outputs.end()).first;
    back_to(static_cast<std::size_t>(parted - accepted_.begin()));
    while (accepted_.size() < outputs.size()) {
      if (!accept(outputs[accepted_.size()])) return {};
    }
    if (matcher_.IsTerminated()) return {};
    return AllowedTokens(mask());
  }

 private:
  void back_to(std::size_t size) {
    if (size == accepted_.size()) return;
    matcher_.Rollback(static_cast<int>(accepted_.size() - size));
    accepted_.resize(size);
    masks_.resize(size + 1);
  }

  bool accept(Token token) {
    if (token < 0 || token >= vocab_ || matcher_.IsTerminated()) return false;
    const std::vector<std::uint32_t>& known = masks_.back();
    if (!known.empty() ? !AllowedTokens(known)(token) : is_special(token)) return false;
    if (!matcher_.AcceptToken(token)) return false;
    accepted_.push_back(token);
    masks_.emplace_back();
    if (masks_.size() > kKeptMasks) masks_[masks_.size() - kKeptMasks - 1] = {};
    return true;
  }

  bool is_special(Token token) const {
    const std::vector<std::string>& pieces = info_.GetDecodedVocab();
    const auto at = static_cast<std::size_t>(token);
    if (at < pieces.size() && !pieces[at].empty()) return false;
    const auto& ends = info_.GetStopTokenIds();
    return std::find(ends.begin(), ends.end(), token) == ends.end();
  }

  std::span<const std::uint32_t> mask() {
    std::vector<std::uint32_t>& words = masks_.back();
    if (words.empty()) {
      words.resize(static_cast<std::size_t>(xgrammar::GetBitmaskSize(vocab_)));
      auto size = static_cast<std::int64_t>(words.size());
      DLTensor tensor{.data = words.data(),
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = xgrammar::GetBitmaskDLType(),
                      .shape = &size,
                      .strides = nullptr,
                      .byte_offset = 0};
      matcher_.FillNextTokenBitmask(&tensor);
    }
    return words;
  }

  xgrammar::GrammarMatcher matcher_;
  int vocab_;
  xgrammar::TokenizerInfo info_;
  std::vector<Token> accepted_;
  std::vector<std::vector<std::uint32_t>> masks_;  // after each accepted token; empty: not made
};

class CompiledTokens final : public TokenGrammar {
 public:
  explicit CompiledTokens(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}
  std::unique_ptr<GrammarWalk> walk() const override {
    return std::make_unique<TokenWalk>(grammar_);
  }

 private:
  xgrammar::CompiledGrammar grammar_;
};

// Control tokens have no text: no grammar allows them, except where it ends. Tags of harmony have a
// mark, which then no other token has.
xgrammar::TokenizerInfo info_of(const Tokenizer& tokenizer, std::size_t vocab,
                                const std::unordered_set<Token>& end) {
  const bool channels = tokenizer.token("<|channel|>") && tokenizer.token("<|message|>");
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto token = static_cast<Token>(i);
    std::string piece(tokenizer.is_control(token) ? std::string_view() : tokenizer.piece(token));
    if (channels && HarmonyText::is_tag(piece)) {
      piece.insert(piece.begin(), internal::kTagMark);
    } else if (channels && piece.find(internal::kTagMark) != piece.npos) {
      piece.clear();
    }
    pieces.push_back(std::move(piece));
  }
  std::vector<std::int32_t> ends(end.begin(), end.end());
  std::sort(ends.begin(), ends.end());
  return {pieces, xgrammar::VocabType::RAW, static_cast<int>(vocab), ends};
}

}  // namespace

struct GrammarCompiler::Impl {
  bool ends = false;
  xgrammar::GrammarCompiler compiler;
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, std::size_t vocab,
                                 const std::unordered_set<Token>& end)
    // On one thread: the others belong to the model.
    : impl_(new Impl{!end.empty(), xgrammar::GrammarCompiler(info_of(tokenizer, vocab, end), 1,
                                                             true, kCacheBytes)}) {}

GrammarCompiler::~GrammarCompiler() = default;

Result<std::shared_ptr<const TokenGrammar>> GrammarCompiler::compile(
    const std::string& ebnf) const {
  if (!impl_->ends) return Error{"the model has no end-of-sequence token, so no grammar can end"};
  try {
    auto grammar = std::make_shared<const CompiledTokens>(impl_->compiler.CompileGrammar(ebnf));
    if (grammar->walk()->after({}).none()) return Error{"no text fits the grammar"};
    return std::shared_ptr<const TokenGrammar>(std::move(grammar));
  } catch (const std::exception& e) {
    return Error{fmt::format("the grammar cannot be compiled: {}", e.what())};
  }
}

}  // namespace forerun
