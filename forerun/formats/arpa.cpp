#include "forerun/formats/arpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "forerun/base/mapped_file.h"
#include "forerun/base/quote.h"

namespace forerun {
namespace {

constexpr std::string_view kBlank = " \t\r";

struct SpecialWord {
  std::string_view word;
  Token token;
};
constexpr SpecialWord kSpecial[] = {
    {"<s>", BackoffNgram::kBegin}, {"</s>", BackoffNgram::kEnd}, {"<unk>", BackoffNgram::kUnknown}};

std::string word_of(Token token) {
  for (const SpecialWord& s : kSpecial) {
    if (s.token == token) return std::string(s.word);
  }
  return std::to_string(token);
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return out;
}

std::optional<Token> token_of(std::string_view word) {
  for (const SpecialWord& s : kSpecial) {
    if (s.word == word) return s.token;
  }
  const std::optional<Token> id = number<Token>(word);
  return id && *id >= 0 && *id < BackoffNgram::kUnknown ? id : std::nullopt;
}

// Lines with their numbers; trailing blanks are cut.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  /// The next line that is not empty; none at the end.
  std::optional<std::string_view> next() {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      line = line.substr(0, line.find_last_not_of(kBlank) + 1);
      if (!line.empty()) return line;
    }
    return {};
  }
  Error wrong(std::string_view what) const { return {fmt::format("line {}: {}", number_, what)}; }
  Error ended(std::string_view before) const {
    return {fmt::format("ends after line {}, before {}: is the file whole?", number_, before)};
  }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at; (at = line.find_first_not_of(kBlank)) != line.npos;) {
    line.remove_prefix(at);
    const std::size_t end = std::min(line.find_first_of(kBlank), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

// One n-gram of `order` tokens; says what is wrong.
std::optional<std::string> add_line(std::string_view line, std::size_t order, BackoffNgram& to) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() != order + 1 && fields.size() != order + 2) {
    return fmt::format("{} fields, expected log10 p, {} tokens and perhaps a back-off weight",
                       fields.size(), order);
  }
  const std::optional<float> p = number<float>(fields[0]);
  if (!p || !std::isfinite(*p) || *p > 0.0F) {
    return fmt::format("{} is no log10 of a probability", quote(fields[0]));
  }
  std::vector<Token> gram;
  for (std::size_t i = 1; i <= order; ++i) {
    const std::optional<Token> token = token_of(fields[i]);
    if (!token) {
      return fmt::format("{} is no token id: n-grams must be of token ids, not of words",
                         quote(fields[i]));
    }
    gram.push_back(*token);
  }
  BackoffNgram::Weights weights{.log10_p = *p};
  if (fields.size() == order + 2) {
    const std::optional<float> backoff = number<float>(fields.back());
    if (!backoff || !std::isfinite(*backoff)) {
      return fmt::format("{} is no back-off weight", quote(fields.back()));
    }
    weights.log10_backoff = *backoff;
  }
  if (!to.add(gram, weights)) return "this n-gram is listed twice";
  return {};
}

// The counts after \data\, and the line behind them.
struct Header {
  std::vector<std::size_t> counts;
  std::string_view after;
};

Result<Header> parse_header(Lines& lines) {
  std::optional<std::string_view> line;
  do {
    line = lines.next();
    if (!line) return Error{"no \\data\\ line: not an ARPA file"};
  } while (*line != "\\data\\");
  Header out;
  while ((line = lines.next()) && line->starts_with("ngram ")) {
    const std::string_view pair = line->substr(6);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const auto order = number<std::size_t>(pair.substr(0, equals));
    const auto count = number<std::size_t>(pair.substr(std::min(equals + 1, pair.size())));
    if (!order || !count || *order != out.counts.size() + 1) {
      return lines.wrong(fmt::format("expected 'ngram {}=COUNT'", out.counts.size() + 1));
    }
    out.counts.push_back(*count);
    if (out.counts.size() > BackoffNgram::kMostOrder) {
      return lines.wrong("n-grams of more than three tokens are not supported");
    }
  }
  if (!line) return lines.ended("\\1-grams:");
  if (out.counts.empty()) return lines.wrong("expected 'ngram 1=COUNT'");
  out.after = *line;
  return out;
}

}  // namespace

std::string to_arpa(const BackoffNgram& law) {
  std::string out = "\\data\\\n";
  int orders = BackoffNgram::kMostOrder;
  while (orders > 1 && law.size(orders) == 0) --orders;
  const auto append = std::back_inserter(out);
  for (int n = 1; n <= orders; ++n) fmt::format_to(append, "ngram {}={}\n", n, law.size(n));
  for (int n = 1; n <= orders; ++n) {
    fmt::format_to(append, "\n\\{}-grams:\n", n);
    for (const std::vector<Token>& gram : law.grams(n)) {
      const BackoffNgram::Weights& weights = *law.find(gram);
      fmt::format_to(append, "{:.7g}\t", weights.log10_p);
      for (std::size_t i = 0; i < gram.size(); ++i) {
        fmt::format_to(append, "{}{}", i == 0 ? "" : " ", word_of(gram[i]));
      }
      if (n < orders) fmt::format_to(append, "\t{:.7g}", weights.log10_backoff);
      out += '\n';
    }
  }
  out += "\n\\end\\\n";
  return out;
}

Result<BackoffNgram> parse_arpa(std::string_view text) {
  Lines lines(text);
  Result<Header> header = parse_header(lines);
  if (!header) return header.error();
  BackoffNgram out;
  std::string_view line = header->after;
  for (std::size_t order = 1; order <= header->counts.size(); ++order) {
    const std::string title = fmt::format("\\{}-grams:", order);
    if (line != title) return lines.wrong(fmt::format("expected '{}'", title));
    for (std::size_t left = header->counts[order - 1];; --left) {
      const std::optional<std::string_view> next = lines.next();
      if (!next) return lines.ended("\\end\\");
      line = *next;
      if (line.starts_with('\\') != (left == 0)) {
        return lines.wrong(
            fmt::format("{} {}-grams than the header says", left == 0 ? "more" : "fewer", order));
      }
      if (left == 0) break;
      if (const auto wrong = add_line(line, order, out)) return lines.wrong(*wrong);
    }
  }
  if (line != "\\end\\") return lines.wrong("expected '\\end\\'");
  return out;
}

BackoffNgram load_arpa(const std::filesystem::path& path) {
  const MappedFile file = load_file(path);
  Result<BackoffNgram> law = parse_arpa(file.text());
  if (!law) throw FormatError(fmt::format("{}: {}", path.string(), law.error().message));
  return *std::move(law);
}

}  // namespace forerun
