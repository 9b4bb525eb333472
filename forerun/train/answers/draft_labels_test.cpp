// Which drafts of a block are learned, and from what.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "forerun/train/answers/draft_targets.h"

namespace forerun {
namespace {

using Ids = std::vector<std::int64_t>;

class DraftLabelsOf : public ::testing::Test {
 protected:
  void add(std::int64_t block, std::int64_t anchor) {
    const AnswerDocument document{.tokens = tokens, .prompt = 2, .key = 1};
    DraftLabels{.drafted = drafted, .drafts = 3, .gamma = 2.0}.add(document, 100, block, anchor,
                                                                   slots);
  }

  const std::vector<Token> tokens = {5, 0, 3, 1, 4, 0, 2, 3};
  // Of six tokens all but the second: their ids in the draft vocabulary.
  const Ids drafted = {0, -1, 1, 2, 3, 4};
  DraftSlots slots;
};

TEST_F(DraftLabelsOf, ABlockAreTheTokensBehindItsAnchor) {
  add(7, 3);
  EXPECT_EQ(slots.block, (Ids{7, 7, 7}));
  EXPECT_EQ(slots.draft, (Ids{0, 1, 2}));
  EXPECT_EQ(slots.label, (Ids{3, 0, 1}));     // of the tokens 4, 0, 2
  EXPECT_EQ(slots.previous, (Ids{1, 4, 0}));  // any token of the target's
  EXPECT_EQ(slots.teacher, (Ids{103, 104, 105}));
  ASSERT_EQ(slots.weight.size(), 3U);
  for (int k = 0; k < 3; ++k) {
    EXPECT_FLOAT_EQ(slots.weight[static_cast<std::size_t>(k)],
                    static_cast<float>(std::exp(-k / 2.0)));
  }
}

TEST_F(DraftLabelsOf, ABlockEndWithTheText) {
  add(0, 5);
  EXPECT_EQ(slots.label, (Ids{1, 2}));
  EXPECT_EQ(slots.teacher, (Ids{105, 106}));
  add(1, 7);  // nothing behind it
  EXPECT_EQ(slots.label.size(), 2U);
}

TEST_F(DraftLabelsOf, ABlockEndAtATokenThatCannotBeDrafted) {
  add(0, 1);  // 3, then 1, which is not to be drafted, then 4
  EXPECT_EQ(slots.label, (Ids{2}));
  add(1, 2);
  EXPECT_EQ(slots.label, (Ids{2}));
}

TEST_F(DraftLabelsOf, SeveralBlocksLieOneBehindTheOther) {
  add(4, 6);
  add(5, 2);  // none
  add(6, 5);
  EXPECT_EQ(slots.block, (Ids{4, 6, 6}));
  EXPECT_EQ(slots.draft, (Ids{0, 0, 1}));
  EXPECT_EQ(slots.label, (Ids{2, 1, 2}));
  EXPECT_EQ(slots.previous, (Ids{2, 0, 2}));
  EXPECT_EQ(slots.teacher, (Ids{106, 105, 106}));
  EXPECT_EQ(slots.weight.size(), 3U);
}

}  // namespace
}  // namespace forerun
