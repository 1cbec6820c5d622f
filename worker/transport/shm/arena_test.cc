#include "worker/transport/shm/arena.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/core/collective.h"
#include "worker/transport/shm/arena_table.h"
#include "worker/transport/shm/epoch_memory.h"

namespace farandole {
namespace {

constexpr size_t kBytes = 5000;

// The arena of two ranks, 1 and 3 of their host, as rank 3 sees it.
std::shared_ptr<const Arena> MakeArena(uint64_t number) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(Arena::Bytes(2, kBytes));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return std::make_shared<const Arena>(number, *std::move(memory), std::vector<int>{1, 3}, 3, kBytes);
}

Fragment At(const Arena& arena, size_t offset, int64_t count) {
  return {arena.data() + offset, arena.data() + offset, count};
}

TEST(ArenaTest, RegionsBeginAtPagesAndDoNotOverlap) {
  const std::shared_ptr<const Arena> arena = MakeArena(7);
  EXPECT_EQ(arena->data(), arena->region(3));
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ((arena->region(3) - arena->region(1)) % page, 0u);
  EXPECT_GE(arena->region(3) - arena->region(1), 5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % page, 0u);
  EXPECT_EQ(arena->bytes(), kBytes);
}

TEST(ArenaTest, ContainsNothingBeyondItsBytes) {
  const std::shared_ptr<const Arena> arena = MakeArena(7);
  EXPECT_TRUE(arena->Contains(arena->data(), kBytes));
  EXPECT_FALSE(arena->Contains(arena->data(), kBytes + 1));
  EXPECT_FALSE(arena->Contains(arena->data() + kBytes, 0));
  EXPECT_FALSE(arena->Contains(arena->data() - 1, 1));
  EXPECT_FALSE(arena->Contains(arena->data() + 1, ~size_t{0}));
  EXPECT_FALSE(arena->Contains(arena->region(1), 1));
}

TEST(ArenaTest, NewMemoryIsZeroAndCanBeReserved) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Status reserved = (*memory)->Reserve(4096, 1 << 19);
  EXPECT_TRUE(reserved.ok()) << reserved;
  EXPECT_EQ(std::vector<char>((*memory)->data(), (*memory)->data() + (1 << 20)), std::vector<char>(1 << 20));
}

TEST(ArenaTest, MoreThanTheMachineHasIsRefused) {
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Status reserved = (*memory)->Reserve(0, size_t{1} << 50);
  EXPECT_EQ(reserved.code(), absl::StatusCode::kResourceExhausted) << reserved;
  EXPECT_EQ(EpochMemory::Create(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ArenaTableTest, TensorsInOneArenaHaveAPlacement) {
  ArenaTable table;
  const std::shared_ptr<const Arena> arena = MakeArena(7);
  const std::vector<Fragment> fragments = {At(*arena, 64, 10), At(*arena, 640, 20)};
  EXPECT_EQ(table.PlacementOf(fragments, 4).arena, 0u);
  table.Add(arena);
  const Placement placement = table.PlacementOf(fragments, 4);
  EXPECT_EQ(placement.arena, 7u);
  EXPECT_EQ(table.PlacementOf(fragments, 4), placement);
  EXPECT_FALSE(table.PlacementOf({At(*arena, 640, 20), At(*arena, 64, 10)}, 4) == placement);
  EXPECT_FALSE(table.PlacementOf({At(*arena, 0, 10)}, 4) == table.PlacementOf({At(*arena, 64, 10)}, 4));
}

TEST(ArenaTableTest, PlacementsOfEqualOffsetsAreEqualInOtherMappings) {
  ArenaTable table;
  ArenaTable other_table;
  const std::shared_ptr<const Arena> arena = MakeArena(7);
  const std::shared_ptr<const Arena> other = MakeArena(7);
  table.Add(arena);
  other_table.Add(other);
  EXPECT_EQ(table.PlacementOf({At(*arena, 128, 10)}, 4), other_table.PlacementOf({At(*other, 128, 10)}, 4));
}

TEST(ArenaTableTest, OtherTensorsHaveNone) {
  ArenaTable table;
  const std::shared_ptr<const Arena> arena = MakeArena(7);
  const std::shared_ptr<const Arena> second = MakeArena(8);
  table.Add(arena);
  table.Add(second);
  std::vector<float> elsewhere(10);
  EXPECT_EQ(table.PlacementOf({{elsewhere.data(), elsewhere.data(), 10}}, 4).arena, 0u);
  EXPECT_EQ(table.PlacementOf({}, 4).arena, 0u);
  EXPECT_EQ(table.PlacementOf({{elsewhere.data(), arena->data(), 10}}, 4).arena, 0u);
  EXPECT_EQ(table.PlacementOf({At(*arena, 0, 10), At(*second, 0, 10)}, 4).arena, 0u);
  EXPECT_EQ(table.PlacementOf({At(*arena, 0, kBytes / 4 + 1)}, 4).arena, 0u);
  EXPECT_EQ(table.PlacementOf({At(*second, 0, 10)}, 4).arena, 8u);
}

TEST(ArenaTableTest, WhoReleasesAnArenaHasItNoMore) {
  ArenaTable table;
  std::shared_ptr<const Arena> arena = MakeArena(7);
  table.Add(arena);
  EXPECT_EQ(table.Find(7), arena);
  EXPECT_EQ(table.Find(8), nullptr);
  arena.reset();
  EXPECT_EQ(table.Find(7), nullptr);
}

}  // namespace
}  // namespace farandole
