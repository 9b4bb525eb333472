#include "forerun/cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "forerun/base/atomic_file.h"
#include "tests/support/temp_folder.h"

namespace forerun::cli {
namespace {

using ::testing::ExitedWithCode;

constexpr int kAlive = 7;

TEST(InterruptDeathTest, TheFirstAsksAndTheSecondEnds) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        std::exit(interrupted() ? kAlive : 1);
      },
      ExitedWithCode(kAlive), "");
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        std::raise(SIGTERM);
        std::exit(kAlive);
      },
      ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, AfterCtrlCWorkMayGoOnAndAfterOtherSignalsNot) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        clear_interrupt();
        const bool goes_on = !interrupted();
        std::raise(SIGHUP);
        std::raise(SIGHUP);  // a closed terminal's, of the kernel and of the shell
        clear_interrupt();
        std::exit(goes_on && interrupted() ? kAlive : 1);
      },
      ExitedWithCode(kAlive), "");
}

TEST(InterruptDeathTest, WhileAModelIsReadTheFirstEndsAndLeavesNoTemporaryFile) {
  const testing::TempFolder folder;
  EXPECT_EXIT(
      {
        catch_interrupts();
        const AtomicFile trace(folder.path() / "trace.html");
        const EndsAtFirst loading;
        std::raise(SIGINT);
        std::exit(kAlive);
      },
      ExitedWithCode(130), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(InterruptDeathTest, AfterItAndWhereAThirdEndsTheFirstAsks) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        { const EndsAtFirst loading; }
        std::raise(SIGINT);
        std::exit(interrupted() ? kAlive : 1);
      },
      ExitedWithCode(kAlive), "");
  EXPECT_EXIT(
      {
        catch_interrupts(kEndsAtThird);
        const EndsAtFirst loading;
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::exit(kAlive);
      },
      ExitedWithCode(kAlive), "");
}

}  // namespace
}  // namespace forerun::cli
