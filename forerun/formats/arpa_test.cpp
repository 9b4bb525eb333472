#include "forerun/formats/arpa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <vector>

#include "forerun/base/quote.h"
#include "forerun/core/kneser_ney.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace forerun {
namespace {

// A trigram law with back-off weights; 7 is unknown to it.
const std::string kArpa = R"(made by hand

\data\
ngram 1=6
ngram 2=3
ngram 3=1

\1-grams:
-1.5	<unk>
-99	<s>	-0.25
-0.75	</s>
-0.5	1	-0.125
-1	2	-0.5
-1.25	3

\2-grams:
-0.25	<s> 1	-0.0625
-0.375	1 2	-0.75
-0.5	2 </s>

\3-grams:
-0.125	<s> 1 2

\end\
)";

double log10_prob(const BackoffNgram& law, Token before, Token last, Token next) {
  return law.log_prob(before, last, next) / std::log(10.0);
}

TEST(Arpa, ScoresByTheFormatsRule) {
  const Result<BackoffNgram> parsed = parse_arpa(kArpa);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const BackoffNgram& law = *parsed;
  const Token none = NgramLaw::kNoToken, end = BackoffNgram::kEnd;
  EXPECT_NEAR(log10_prob(law, none, none, 1), -0.25, 1e-6);
  EXPECT_NEAR(log10_prob(law, none, none, 2), -0.25 - 1.0, 1e-6);
  EXPECT_NEAR(log10_prob(law, none, 1, 2), -0.125, 1e-6);  // listed
  EXPECT_NEAR(log10_prob(law, none, 1, 3), -0.0625 - 0.125 - 1.25, 1e-6);
  EXPECT_NEAR(log10_prob(law, 3, 1, 2), -0.375, 1e-6);  // no weight of "3 1"
  EXPECT_NEAR(log10_prob(law, 1, 2, end), -0.75 - 0.5, 1e-6);
  EXPECT_NEAR(log10_prob(law, 1, 2, 7), -0.75 - 0.5 - 1.5, 1e-6);  // unknown
  EXPECT_NEAR(log10_prob(law, 7, 7, 3), -1.25, 1e-6);
}

TEST(Arpa, IsReadAsItWasWritten) {
  const std::vector<Token> a = {5, 6, 5, 6, 7, 5, 6, 8}, b = {6, 7, 5};
  const std::span<const Token> documents[] = {a, b};
  const BackoffNgram law = estimate_kneser_ney(documents);
  const std::string text = to_arpa(law);
  const testing::TempFolder folder;
  const auto path = folder.path() / "law.arpa";
  std::ofstream(path) << text;
  const BackoffNgram again = load_arpa(path);
  EXPECT_EQ(to_arpa(again), text);
  for (Token before = 5; before < 9; ++before) {
    for (Token last = 5; last < 9; ++last) {
      for (Token next = 5; next < 10; ++next) {
        EXPECT_NEAR(again.log_prob(before, last, next), law.log_prob(before, last, next), 1e-5);
      }
    }
  }
}

TEST(Arpa, SaysInOneLineWhatIsWrong) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text = kArpa;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "not an ARPA file"},
      {"hello\n", "not an ARPA file"},
      {"\\data\\\n\\1-grams:\n", "expected 'ngram 1=COUNT'"},
      {with("ngram 2=3", "ngram 3=3"), "line 5: expected 'ngram 2=COUNT'"},
      {with("ngram 2=3", "ngram 2=2"), "line 19: more 2-grams than the header says"},
      {with("ngram 2=3", "ngram 2=4"), "line 21: fewer 2-grams than the header says"},
      {with("ngram 3=1", "ngram 3=1\nngram 4=1"), "more than three tokens"},
      {with("1 2\t-0.75", "1 two\t-0.75"), "line 18: 'two' is no token id"},
      {with("1 2\t-0.75", "1 -2\t-0.75"), "is no token id"},
      {with("1 2\t-0.75", "1 2\t-0.75 3"), "line 18: 5 fields"},
      {with("1 2\t-0.75", "1 2\tnan"), "is no back-off weight"},
      {with("-0.375", "0.375"), "is no log10 of a probability"},
      {with("-0.375", "-inf"), "is no log10 of a probability"},
      {with("1 2\t-0.75", "<s> 1\t-0.75"), "listed twice"},
      {with("\\3-grams:", "\\4-grams:"), "expected '\\3-grams:'"},
      {kArpa.substr(0, kArpa.find("\\end\\")), "is the file whole?"}};
  for (const auto& [text, says] : cases) {
    const Result<BackoffNgram> law = parse_arpa(text);
    ASSERT_FALSE(law) << says;
    EXPECT_NE(law.error().message.find(says), std::string::npos) << law.error().message;
  }
}

TEST(Arpa, DamagedFilesNeverCrash) {
  const std::vector<testing::Bytes> seeds{testing::bytes_of(kArpa)};
  std::size_t parsed = 0, refused = 0;
  testing::for_each_mutant(seeds, [&](const testing::Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const Result<BackoffNgram> law = parse_arpa(testing::text_of(mutant));
    law ? ++parsed : ++refused;
    if (law) {
      EXPECT_TRUE(std::isfinite(law->log_prob(1, 2, 3)));
    } else {
      EXPECT_EQ(printable(law.error().message, law.error().message.size()), law.error().message);
    }
  });
  EXPECT_GT(parsed, 0U);
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace forerun
