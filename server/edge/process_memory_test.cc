#include "server/edge/process_memory.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

void Write(const std::string& directory, const std::string& text) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/memory.max") << text;
}

TEST(ProcessMemoryTest, TheLeastLimitAboveAGroupCounts) {
  std::string root = ::testing::TempDir() + "/groups.XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  Write(root + "/a/b", "max\n");
  EXPECT_EQ(GroupMemoryLimit("0::/a/b\n", root), std::numeric_limits<uint64_t>::max());
  Write(root + "/a", "1048576\n");
  EXPECT_EQ(GroupMemoryLimit("0::/a/b\n", root), 1048576u);
  Write(root + "/a/b", "4096\n");
  EXPECT_EQ(GroupMemoryLimit("4:memory:/x\n0::/a/b\n", root), 4096u);
  EXPECT_EQ(GroupMemoryLimit("0::/\n", root), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(GroupMemoryLimit("", root), std::numeric_limits<uint64_t>::max());
}

uint64_t Resident() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Not under ASan, which has an allocator of its own (.bazelrc).
TEST(ProcessMemoryTest, HolesInTheHeapGoBackToTheSystem) {
  constexpr size_t kPieces = 1 << 20, kBytes = 240;
  std::vector<std::unique_ptr<char[]>> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<char[]>(kBytes));
    pieces.back()[0] = 1;
  }
  // One in 100 stays, so that the heap's end cannot shrink.
  for (size_t i = 0; i < kPieces; ++i) {
    if (i % 100 != 99) pieces[i].reset();
  }
  const uint64_t before = Resident();
  EXPECT_FALSE(ReturnFreedMemory(uint64_t{4} << 30));
  EXPECT_TRUE(ReturnFreedMemory(uint64_t{64} << 20));
  EXPECT_LT(Resident() + kPieces * kBytes / 3, before);
  EXPECT_FALSE(ReturnFreedMemory(uint64_t{192} << 20)) << "most of it has gone";
}

TEST(ProcessMemoryTest, AProcessHasSome) { EXPECT_GT(MemoryOfProcess(), uint64_t{64} << 20); }

}  // namespace
}  // namespace farandole
