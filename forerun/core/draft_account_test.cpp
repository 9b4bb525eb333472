#include "forerun/core/draft_account.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forerun {
namespace {

constexpr DraftAccount::Terms kTerms{.credit = 1.0, .share = 0.02};

TEST(DraftAccount, DraftsSpendCreditShareAndWhatTheyGained) {
  DraftAccount account;
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 100), 1.0);
  account.settle(2, 0.5, 0);  // three outputs
  EXPECT_DOUBLE_EQ(account.outputs(), 3.0);
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 100), 1.0 + 2.0 - 0.5 + 0.06);
  account.settle(0, 5.0, 0);
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 100), 0.0);
}

TEST(DraftAccount, ReadingBorrowsTheShareOfOutputsAhead) {
  DraftAccount account;
  EXPECT_DOUBLE_EQ(account.for_reading(kTerms, 100), 3.0);
  account.settle(0, 0, 1.5);
  EXPECT_DOUBLE_EQ(account.for_reading(kTerms, 99), 1.02 + 1.98 - 1.5);
  // Covered by what is ahead, so that drafts may follow at once ...
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 99), 1.02);
  // ... and paid back before the text ends.
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 25), 1.02 - 1.0);
  EXPECT_DOUBLE_EQ(account.for_drafts(kTerms, 0), 0.0);
}

TEST(DraftAccount, NoOrderOfSpendingLosesMoreThanCreditAndShare) {
  const int outputs = 100;
  const double bound = kTerms.credit + kTerms.share * outputs;
  for (const int reads_from : {0, 1, 50, 99}) {
    for (const int drafts_from : {0, 1, 50, 99}) {
      DraftAccount account;
      double spent = 0.0;
      for (int i = 0; i < outputs; ++i) {
        const double ahead = outputs - i;
        const double read =
            i >= reads_from ? std::max(0.0, account.for_reading(kTerms, ahead)) : 0.0;
        const double lost = i >= drafts_from ? account.for_drafts(kTerms, ahead, read) : 0.0;
        account.settle(0, lost, read);
        spent += lost + read;
      }
      EXPECT_LE(spent, bound + 1e-9) << reads_from << " " << drafts_from;
      EXPECT_GT(spent, 0.9 * bound) << reads_from << " " << drafts_from;
    }
  }
}

}  // namespace
}  // namespace forerun
