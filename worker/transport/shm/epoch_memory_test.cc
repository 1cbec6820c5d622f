#include "worker/transport/shm/epoch_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace farandole {
namespace {

const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

std::unique_ptr<EpochMemory> MakeMemory(size_t pages) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(pages * kPage);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

// Whether the claim holds in a forked child.
bool HoldsInChild(const std::function<bool()>& claim) {
  const pid_t child = fork();
  if (child == 0) _exit(claim() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(EpochMemoryTest, WhatAForkedChildWritesIsItsOwn) {
  const std::unique_ptr<EpochMemory> memory = MakeMemory(3);
  memory->Inherit(kPage, 2 * kPage);
  char* const part = memory->data() + kPage;
  part[0] = 'a';
  part[kPage] = 'b';
  EXPECT_TRUE(HoldsInChild([part] {
    const bool has_inherited = part[0] == 'a' && part[kPage] == 'b';
    part[0] = 'x';
    part[kPage] = 'y';
    return has_inherited && part[0] == 'x' && part[kPage] == 'y';
  }));
  EXPECT_EQ(part[0], 'a');
  EXPECT_EQ(part[kPage], 'b');
}

TEST(EpochMemoryTest, AChildOfAChildHasTheChildsBytes) {
  const std::unique_ptr<EpochMemory> memory = MakeMemory(1);
  memory->Inherit(0, kPage);
  char* const part = memory->data();
  EXPECT_TRUE(HoldsInChild([part] {
    part[0] = 'x';
    const bool inherited = HoldsInChild([part] {
      const bool same = part[0] == 'x';
      part[0] = 'z';
      return same;
    });
    return inherited && part[0] == 'x';
  }));
  EXPECT_EQ(part[0], 0);
}

TEST(EpochMemoryTest, AChildThatDropsItKeepsWhatElseLiesAtItsAddresses) {
  std::unique_ptr<EpochMemory> memory = MakeMemory(3);
  memory->Inherit(kPage, kPage);
  EXPECT_TRUE(HoldsInChild([&memory] {
    // If the child has inherited nothing, the system may put other memory.
    void* const place = memory->data();
    char* const other = static_cast<char*>(
        mmap(place, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    if (other != place) return false;
    other[0] = 'o';
    memory.reset();
    return other[0] == 'o';
  }));
}

TEST(EpochMemoryTest, AChildCanMakeMemoryThoughAnotherThreadDidSoAtTheFork) {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop.load()) MakeMemory(1)->Inherit(0, kPage);
  });
  for (int fork_number = 0; fork_number < 50; ++fork_number) {
    EXPECT_TRUE(HoldsInChild([] {
      alarm(20);  // a child that hangs is ended
      MakeMemory(2)->Inherit(kPage, kPage);
      return true;
    }));
  }
  stop.store(true);
  other.join();
}

}  // namespace
}  // namespace farandole
