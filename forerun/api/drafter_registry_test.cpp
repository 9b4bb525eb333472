// Drafters that a program registers.
#include <gtest/gtest.h>

#include <algorithm>

#include "forerun/method.h"
#include "tests/support/tiny_prompts.h"

namespace forerun {
namespace {

using testing::options;
using testing::prompt;
using testing::tiny;

// Repeats the last tokens of the text, or what the argument makes of it.
class Repeater final : public DraftSource {
 public:
  explicit Repeater(std::size_t drafts) : drafts_(drafts) {}
  std::vector<std::vector<Token>> propose(std::span<const DraftRequest> texts) override {
    if (drafts_ == 99) return {};  // broken
    std::vector<std::vector<Token>> out;
    for (const DraftRequest& t : texts) {
      out.emplace_back(std::min(drafts_, 2 * t.most), t.text[t.text.size() / 2]);
    }
    return out;
  }

 private:
  std::size_t drafts_;
};

void add_repeater() {
  static const bool once = [] {
    register_drafter({.name = "repeater", .argument = "N", .help = "repeats a token N times"},
                     [](const Model&, const std::string& argument) {
                       return std::make_unique<Repeater>(std::stoul(argument));
                     });
    return true;
  }();
  static_cast<void>(once);
}

TEST(DrafterRegistry, ARegisteredSourceDraftsAndChangesNoText) {
  add_repeater();
  for (const double temperature : {0.0, 0.9}) {
    for (const Rule rule : {Rule::kMaximal, Rule::kMatch, Rule::kSharedNoise}) {
      for (const bool fixed : {true, false}) {
        GenerateOptions o = options(rule, temperature);
        o.fixed_draft = fixed;
        const Generated plain = generate(tiny(), Drafter(), prompt(20), o);
        const Drafter drafter = Drafter::load("repeater:5", tiny());
        EXPECT_FALSE(drafter.has_laws());
        const Generated drafted = generate(tiny(), drafter, prompt(20), o);
        EXPECT_EQ(drafted.tokens, plain.tokens) << name_of(rule) << " " << temperature;
        if (fixed) {
          EXPECT_GT(drafted.statistics.drafted, 0U);
        }
      }
    }
  }
  const Certificate c =
      certify(tiny(), Drafter::load("repeater:3", tiny()),
              std::vector<std::vector<Token>>{prompt(20)}, 60, 60, options(Rule::kMaximal, 0.9));
  EXPECT_TRUE(c.passed());
  EXPECT_TRUE(c.deterministic);
}

TEST(DrafterRegistry, ABrokenSourceFailsWithALine) {
  add_repeater();
  const Drafter broken = Drafter::load("repeater:99", tiny());
  try {
    generate(tiny(), broken, prompt(20), options(Rule::kMaximal, 0.9));
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("one for each"), std::string::npos) << e.what();
  }
}

TEST(DrafterRegistry, ASourceThatIsNoneIsSaid) {
  EXPECT_THROW(register_drafter({.name = "nobody", .argument = "", .help = ""}, {}), UsageError);
  register_drafter({.name = "nothing-at-all", .argument = "", .help = ""},
                   [](const Model&, const std::string&) { return std::unique_ptr<DraftSource>(); });
  const Drafter none = Drafter::load("nothing-at-all", tiny());
  EXPECT_THROW(generate(tiny(), none, prompt(20), options(Rule::kMaximal, 0.9)), UsageError);
}

TEST(DrafterRegistry, NamesAreUniqueAndPlain) {
  add_repeater();
  const auto make = [](const Model&, const std::string&) { return std::make_unique<Repeater>(1); };
  for (const char* name :
       {"none", "lookup", "dflash", "draft-model", "repeater", "", "a:b", "a+b"}) {
    EXPECT_THROW(register_drafter({.name = name, .argument = "", .help = ""}, make), UsageError)
        << name;
  }
  EXPECT_THROW(Drafter::load("repeater", tiny()), UsageError);  // the argument is missing
  EXPECT_THROW(Drafter::load("lookup:x", tiny()), UsageError);  // it takes none
  EXPECT_THROW(Drafter::load("lookup:", tiny()), UsageError);
  EXPECT_THROW(Drafter::load("nothing", tiny()), UsageError);
  EXPECT_THROW(Drafter::load("lookup+nothing", tiny()), UsageError);
  EXPECT_THROW(Drafter::load("lookup+lookup", tiny()), UsageError);
  EXPECT_THROW(Drafter::load("sam+recycling+sam", tiny()), UsageError);
  EXPECT_NO_THROW(Drafter::load("lookup+auto", tiny()));  // what is named goes before
  EXPECT_THROW(Drafter::load("none+lookup", tiny()), UsageError);
  EXPECT_THROW(Drafter::load("repeater:3+lookup", tiny()), UsageError);  // drafts alone
  EXPECT_EQ(Drafter::load("auto+sam", tiny()).name(), "auto+sam");       // of three sources
  EXPECT_NO_THROW(Drafter::load("sam+auto", tiny()));
  std::vector<std::string> names;
  for (const DrafterInfo& d : registered_drafters()) names.push_back(d.name);
  EXPECT_EQ(std::count(names.begin(), names.end(), "dflash"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "repeater"), 1);
}

}  // namespace
}  // namespace forerun
