#include "worker/transport/shm/stage_copier.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr size_t kBytes = 4096;

// The durations of the next copies, in turns of two looks at the clock each; the last one stays.
std::vector<int64_t> durations;
int64_t now = 0;
int looks = 0;

int64_t ScriptedClock() {
  if (looks++ % 2 == 1) {
    now += durations.front();
    if (durations.size() > 1) durations.erase(durations.begin());
  }
  return now;
}

// A copier after its first round of probes: two ordinary copies, then two past the caches.
StageCopier AfterProbes(std::vector<int64_t> ns) {
  durations = std::move(ns);
  looks = 0;
  StageCopier copier(ScriptedClock);
  const std::string from(kBytes, 'a');
  for (int probe = 0; probe < 4; ++probe) {
    std::string stage(kBytes, 'x');
    copier.Copy(stage.data(), from.data(), kBytes);
    EXPECT_EQ(stage, from);
  }
  EXPECT_EQ(looks, 8);
  return copier;
}

TEST(StageCopierTest, GoesPastTheCachesWhereThatIsFasterByMoreThanReadersLose) {
  EXPECT_TRUE(AfterProbes({2000, 2000, 100, 100}).streams());
  EXPECT_FALSE(AfterProbes({400, 400, 100, 100}).streams());
  EXPECT_FALSE(AfterProbes({100, 100, 2000, 2000}).streams());
}

TEST(StageCopierTest, OneSlowCopyOfAKindDoesNotCount) {
  EXPECT_FALSE(AfterProbes({100, 900'000, 300, 300}).streams());
  EXPECT_TRUE(AfterProbes({2000, 2000, 900'000, 100}).streams());
}

TEST(StageCopierTest, LooksAgainAfterSomeCopies) {
  StageCopier copier = AfterProbes({2000, 2000, 100, 100});
  durations = {100, 100, 2000, 2000};
  std::string stage(kBytes, 'x');
  const std::string from(kBytes, 'a');
  for (int copies = 0; copies < 100 && copier.streams(); ++copies) copier.Copy(stage.data(), from.data(), kBytes);
  EXPECT_FALSE(copier.streams());
}

TEST(StageCopierTest, ShortCopiesAreNotTimed) {
  looks = 0;
  StageCopier copier(ScriptedClock);
  std::string stage(64, 'x');
  for (int copies = 0; copies < 1000; ++copies) copier.Copy(stage.data(), "0123456789", 10);
  EXPECT_EQ(stage.substr(0, 10), "0123456789");
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace farandole
