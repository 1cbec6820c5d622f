#include "deploy/launcher/process/errands.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::ElementsAre;

TEST(ErrandsTest, ErrandsRunInOrderElsewhereAndTheirSequelsHere) {
  EventLoop loop;
  const std::unique_ptr<Errands> errands = Errands::Make(&loop).value();
  const std::thread::id here = std::this_thread::get_id();
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    errands->Add([&, i] {
      EXPECT_NE(std::this_thread::get_id(), here);
      return [&, i] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        done.push_back(i);
      };
    });
  }
  EXPECT_FALSE(errands->is_idle());
  while (!errands->is_idle()) ASSERT_TRUE(loop.RunOnce().ok());
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

TEST(ErrandsTest, ASequelMayAddAnErrand) {
  EventLoop loop;
  const std::unique_ptr<Errands> errands = Errands::Make(&loop).value();
  bool is_done = false;
  errands->Add([&] { return [&] { errands->Add([&]() -> Errands::Sequel { return [&] { is_done = true; }; }); }; });
  while (!errands->is_idle()) ASSERT_TRUE(loop.RunOnce().ok());
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace farandole::launcher
