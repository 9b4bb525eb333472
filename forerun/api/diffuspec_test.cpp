// DiffuSpec through the public API, on a tiny tiny_target: its texts are those of plain decoding,
// and its laws those of the tiny_target, whatever the search, the lengths and the sources beside
// it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "forerun/api/diffuspec_options.h"
#include "forerun/core/kneser_ney.h"
#include "forerun/formats/arpa.h"
#include "forerun/models/diffusion_lm/diffusion_file.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/text.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_diffusion.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::options;
using testing::prompt;

const Model& tiny_target() { return testing::tiny(); }

// The first two blocks of the tiny_target, with a head of all tokens or of every third.
const std::string& network(bool reduced = false) {
  static const testing::TempFolder folder;
  static const auto make = [](const char* name, bool few) {
    const std::string path = (folder.path() / name).string();
    save_diffusion_lm(path, tiny_diffusion("llama_plain", few));
    return path;
  };
  static const std::string whole = make("whole", false), some = make("some", true);
  return reduced ? some : whole;
}

Drafter drafter(const std::string& suffix, bool reduced = false) {
  return Drafter::load("diffuspec:" + network(reduced) + suffix, tiny_target());
}

// The same network, of which every row sees every other.
const std::string& bidirectional() {
  static const testing::TempFolder folder;
  static const std::string path = [] {
    save_diffusion_lm(folder.path() / "bidirectional", tiny_bidirectional("llama_plain"));
    return (folder.path() / "bidirectional").string();
  }();
  return path;
}

// Trigrams of a text of the tiny_target.
const std::string& trigrams() {
  static const testing::TempFolder folder;
  static const std::string path = [] {
    const std::vector<Token> text =
        generate(tiny_target(), Drafter(), prompt(20), options(Rule::kMaximal, 1.0, 200)).tokens;
    const std::span<const Token> documents[] = {text};
    std::ofstream(folder.path() / "law.arpa") << to_arpa(estimate_kneser_ney(documents));
    return (folder.path() / "law.arpa").string();
  }();
  return path;
}

const std::vector<std::string> kDiffuSpecForms = {"",
                                                  ":beams=0",
                                                  ":weight=1:beams=5",
                                                  ":mix=log",
                                                  ":length=paper:least=2:most=4",
                                                  ":length=failfast:least=2:most=9:confidence=0.01",
                                                  ":ngram=" + trigrams(),
                                                  "+lookup+recycling"};

TEST(DiffuSpec, GreedyTextIsThePlainText) {
  for (const std::size_t length : {2U, 200U}) {
    const auto p = prompt(length);
    const Generated plain = generate(tiny_target(), Drafter(), p, options(Rule::kMaximal, 0.0));
    for (const std::string& form : kDiffuSpecForms) {
      for (const Rule rule : {Rule::kMaximal, Rule::kMatch, Rule::kSharedNoise}) {
        const Generated g = generate(tiny_target(), drafter(form), p, options(rule, 0.0));
        EXPECT_EQ(g.tokens, plain.tokens) << form << " " << name_of(rule);
        EXPECT_GT(g.statistics.drafted, 0U) << form;
      }
    }
  }
}

TEST(DiffuSpec, SharedNoiseIsThePlainTextWhateverTheDraftLength) {
  const Generated plain =
      generate(tiny_target(), Drafter(), prompt(20), options(Rule::kSharedNoise, 0.8));
  for (const bool reduced : {false, true}) {
    for (const std::string& form : kDiffuSpecForms) {
      const Drafter d = drafter(form, reduced);
      for (const std::uint32_t most : {1U, 3U, 12U}) {
        GenerateOptions o = options(Rule::kSharedNoise, 0.8);
        o.max_draft = most;
        EXPECT_EQ(generate(tiny_target(), d, prompt(20), o).tokens, plain.tokens) << form << most;
      }
      GenerateOptions adaptive = options(Rule::kSharedNoise, 0.8);
      adaptive.fixed_draft = false;
      EXPECT_EQ(generate(tiny_target(), d, prompt(20), adaptive).tokens, plain.tokens) << form;
    }
  }
}

TEST(DiffuSpec, CertificatesPass) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 4; ++i) prompts.push_back(prompt(30, i));
  const auto passes = [&](const std::string& form, Rule rule, double temperature) {
    const Certificate c =
        certify(tiny_target(), drafter(form), prompts, 800, 64, options(rule, temperature));
    EXPECT_TRUE(c.passed()) << form << " " << name_of(rule) << " z " << c.report.z;
    EXPECT_LT(std::abs(c.report.z), 4.0) << form << " " << name_of(rule);
    EXPECT_GT(c.report.drafted, 20U);
  };
  for (const std::string& form : kDiffuSpecForms) passes(form, Rule::kMaximal, 1.0);
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock, Rule::kMatch}) passes("", rule, 0.7);
}

TEST(DiffuSpec, ANetworkWhoseRowsSeeEachOtherDraftsInTheSameWay) {
  const auto o = options(Rule::kSharedNoise, 0.8);
  const Generated plain = generate(tiny_target(), Drafter(), prompt(20), o);
  std::vector<Precision> precisions = {Precision::kF32, Precision::kBF16, Precision::kFile};
  if (cpu_features().int8()) precisions.push_back(Precision::kInt8);
  for (const Precision precision : precisions) {
    for (const std::string& form : kDiffuSpecForms) {
      const Drafter d =
          Drafter::load("diffuspec:" + bidirectional() + form, tiny_target(), precision);
      const Generated g = generate(tiny_target(), d, prompt(20), o);
      EXPECT_EQ(g.tokens, plain.tokens) << form << " " << name_of(precision);
      EXPECT_GT(g.statistics.drafted, 0U) << form;
    }
  }
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 4; ++i) prompts.push_back(prompt(30, i));
  const Certificate c =
      certify(tiny_target(), Drafter::load("diffuspec:" + bidirectional(), tiny_target()), prompts,
              800, 64, options(Rule::kMaximal, 1.0));
  EXPECT_TRUE(c.passed()) << c.report.z;
  EXPECT_GT(c.report.drafted, 20U);
}

// The published rule tests p / q on a path that a search has found.
TEST(DiffuSpec, ThePublishedRatioOnASearchedPathIsCaught) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 6; ++i) prompts.push_back(prompt(30, i));
  const Certificate c =
      certify(tiny_target(), drafter(""), prompts, 2000, 64, options(Rule::kRatioOnSearch, 1.0));
  EXPECT_FALSE(c.passed());
  EXPECT_FALSE(c.exact);
  EXPECT_GT(c.report.z, 8.0);
  EXPECT_THROW(
      generate(tiny_target(), drafter("+lookup"), prompts[0], options(Rule::kRatioOnSearch, 1.0)),
      UsageError);
}

TEST(DiffuSpec, TextsOfABatchAreThoseOfSingleRuns) {
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < 5; ++i) prompts.push_back(prompt(static_cast<std::size_t>(7 + 40 * i), i));
  for (const Rule rule : {Rule::kMaximal, Rule::kSharedNoise}) {
    const Drafter d = drafter("");
    GenerateOptions o = options(rule, 0.9, 30);
    o.batch_size = 2;  // sequences end and others begin between rounds
    const auto batch = generate_batch(tiny_target(), d, prompts, o);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerateOptions one = o;
      one.request = static_cast<std::uint32_t>(i);
      // Sampled drafts of a text that is read over several rounds begin in another round.
      if (rule == Rule::kMaximal && prompts[i].size() > 32) continue;
      EXPECT_EQ(batch[i].tokens, generate(tiny_target(), d, prompts[i], one).tokens) << i;
    }
  }
}

TEST(DiffuSpec, TextsEndWithTheirBudgetAndTheContext) {
  const Generated plain =
      generate(tiny_target(), Drafter(), prompt(20), options(Rule::kMaximal, 0.0));
  for (std::uint32_t n = 1; n < 8; ++n) {
    const Generated g =
        generate(tiny_target(), drafter(""), prompt(20), options(Rule::kMaximal, 0.0, n));
    EXPECT_EQ(g.tokens, std::vector<Token>(plain.tokens.begin(), plain.tokens.begin() + n));
  }
  const auto nearly = prompt(tiny_target().context() - 20);
  for (const std::string form : {"", ":length=failfast:least=2:most=40:confidence=0"}) {
    EXPECT_EQ(generate(tiny_target(), drafter(form), nearly, options(Rule::kMaximal, 0.0)).tokens,
              generate(tiny_target(), Drafter(), nearly, options(Rule::kMaximal, 0.0)).tokens);
  }
}

void refuses(const std::string& spec, const std::string& says) {
  try {
    Drafter::load(spec, tiny_target());
    FAIL() << spec << " was accepted";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "one line: " << e.what();
  }
}

TEST(DiffuSpecRefused, WithAOneLineReason) {
  refuses("diffuspec:", "give diffuspec:PATH");
  refuses("diffuspec:/no/such/folder", "/no/such/folder");
  refuses("diffuspec:" + network() + ":beams=many", "beams takes a number from 0 to 64");
  refuses("diffuspec:" + network() + ":beams=3:beams=4", "given twice");
  refuses("diffuspec:" + network() + ":context=0", "context takes a number from 1 to 1048576");
  refuses("diffuspec:" + network() + ":length=long", "measured, paper or failfast");
  refuses("diffuspec:" + network() + ":mix=both", "linear or log");
  refuses("diffuspec:" + network() + ":depth=3", "no option 'depth'; there are beams, ");
  refuses("diffuspec:/no/such/folder:depth=3", "'/no/such/folder:depth=3'");  // a path
  refuses("diffuspec:" + network() + ":ngram=/no/such/file", "/no/such/file");
  const testing::TempFolder folder;
  const auto arpa = folder.path() / "law.arpa";
  std::ofstream(arpa) << "\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t4000\n\n\\end\\\n";
  refuses("diffuspec:" + network() + ":ngram=" + arpa.string(), "token 4000");
  const std::string header = "\\data\\\nngram 1=2\n\n\\1-grams:\n-1\t4\n";
  for (const auto& [text, says] :
       {std::pair(header, std::string("is the file whole?")),
        std::pair(header + "\n\\end\\\n", std::string("fewer 1-grams than the header says")),
        std::pair(header + "-1\tword\n\\end\\\n", std::string("is no token id")),
        std::pair(header + "0.5\t5\n\\end\\\n", std::string("no log10 of a probability")),
        std::pair(std::string("\x7f"
                              "ELF"),
                  std::string("not an ARPA file"))}) {
    std::ofstream(arpa) << text;
    refuses("diffuspec:" + network() + ":ngram=" + arpa.string(), arpa.string());
    refuses("diffuspec:" + network() + ":ngram=" + arpa.string(), says);
  }
  const Model other = Model::load(FORERUN_SOURCE_DIR "/tests/data/tiny/qwen2", Precision::kF32);
  EXPECT_THROW(Drafter::load("diffuspec:" + network(), other), std::exception);
}

TEST(DiffuSpecOptions, AreReadFromTheEndOfTheName) {
  const DiffuSpecArgument a =
      parse_diffuspec("a:b=c/d:beams=2:weight=0.25:mix=log:length=paper:most=9");
  EXPECT_EQ(a.folder, "a:b=c/d");
  EXPECT_EQ(a.options.search.beams, 2U);
  EXPECT_EQ(a.weight, 0.25);
  EXPECT_FALSE(a.options.search.linear);
  EXPECT_EQ(a.options.control, PlaceControl::kPaper);
  EXPECT_EQ(a.options.most, 9U);
  EXPECT_EQ(a.options.least, 0U);
}

}  // namespace
}  // namespace forerun
