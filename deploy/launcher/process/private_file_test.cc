#include "deploy/launcher/process/private_file.h"

#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace launcher {
namespace {

TEST(PrivateFileTest, ANewFileIsItsOwnersAndIsNotWrittenOver) {
  const std::string path = testing::TempDir() + "/private";
  remove(path.c_str());
  ASSERT_TRUE(WriteNewFile(path, "x").ok());
  struct stat about = {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(WriteNewFile(path, "y").message(), path + " exists already");
}

TEST(PrivateFileTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_EQ(WriteNewFile("/proc/no/such", "x").message(), "/proc/no/such cannot be written: No such file or directory");
}

}  // namespace
}  // namespace launcher
}  // namespace farandole
