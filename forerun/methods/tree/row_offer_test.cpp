// What rows beside drafts are offered for, on a curve that is no line.
#include "forerun/methods/tree/row_offer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "forerun/methods/tidar/tidar_blocks.h"

namespace forerun {
namespace {

constexpr std::size_t kFree = 8, kDrafts = 1;

// Passes cost the same up to 8 rows, and a third of that more for each further row.
double seconds(std::size_t rows) {
  return 0.01 * (rows <= kFree ? 1.0 : 1.0 + 0.33 * static_cast<double>(rows - kFree));
}

struct Planned {
  Planned() {
    for (const std::size_t size : {1, 2, 3, 4, 6, 8, 12, 16}) {
      for (int i = 0; i < 4; ++i) {
        control.observe({}, {.rows = size, .target_seconds = seconds(size)});
      }
    }
    const SequencePlan plan{.id = 1, .limit = kDrafts, .deterministic = true, .reach = reach};
    control.plan({&plan, 1});  // measures a plain round
    control.plan({&plan, 1});
    offer = row_offer(control, 1, rows, planned, reach);
  }
  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) rows.add(1, -1, 0, -1);
  }

  DraftLength control;
  std::vector<double> reach = {0.5};
  CompanionRows rows;
  std::size_t planned = 0;
  RowOffer offer;
};

TEST(RowOffer, PricesWhatRowsCostMoreThanThoseBefore) {
  Planned p;
  const double two_beyond = p.control.price(8), six = p.control.price(6);
  EXPECT_GT(two_beyond, 0.6);  // two thirds of a pass that makes 1 to 1.5 outputs
  EXPECT_LT(two_beyond, 1.05);
  EXPECT_NEAR(six, 0.0, 0.01);
  EXPECT_EQ(p.offer.price(8), two_beyond);
  p.add(3);
  EXPECT_NEAR(p.offer.price(3), six, 1e-9);
  EXPECT_NEAR(p.offer.price(5), two_beyond, 0.01);
  p.add(3);
  EXPECT_NEAR(p.offer.price(2), two_beyond, 0.01);
  // The next source's: the controller knows of the six.
  p.control.add_rows(6);
  p.planned = 6;
  EXPECT_NEAR(p.offer.price(2), two_beyond, 0.05);
}

TEST(RowOffer, NothingIsOfferedThatTheTextCannotAfford) {
  Planned p;
  p.add(100);
  EXPECT_TRUE(std::isinf(p.offer.price(2000)));
}

// Blocks of mask rows for as many outcomes as cost nothing.
TEST(RowOffer, ReplicasRunAsFarAsRowsAreFree) {
  GatedLora lora;
  lora.config.block = 4;
  lora.config.first_slot = 1;
  lora.config.vocab = 8;
  TidarBlocks blocks(std::make_shared<const GatedLora>(in_precision(lora, Precision::kF32)),
                     TidarForm::kMeasured, TidarBlocks::Kept::kLikeliest);
  Planned p;
  const TokenSequence sequence(1, 0, {1, 2, 3}, 1000);
  const TokenDraft draft{.tokens = {3}};
  blocks.companions(sequence, draft, p.offer, p.rows);
  EXPECT_EQ(p.rows.rows(), 6U);  // for both outcomes of one draft
}

}  // namespace
}  // namespace forerun
