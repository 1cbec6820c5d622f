#include "server/edge/process_memory.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

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

TEST(ProcessMemoryTest, AProcessHasSome) { EXPECT_GT(MemoryOfProcess(), uint64_t{64} << 20); }

}  // namespace
}  // namespace farandole
