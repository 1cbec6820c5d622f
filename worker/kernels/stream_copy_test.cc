#include "worker/kernels/stream_copy.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(StreamCopyTest, CopiesAllBytesAndNoOthersAtEveryAlignment) {
  std::string source(400, 0);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + 1);
  for (size_t offset = 0; offset < 64; ++offset) {
    for (const size_t bytes : {0, 1, 63, 64, 65, 128, 200, 257}) {
      std::string target(400, 'x');
      StreamCopy(target.data() + offset, source.data() + offset % 5, bytes);
      std::string expected(400, 'x');
      expected.replace(offset, bytes, source, offset % 5, bytes);
      EXPECT_EQ(target, expected) << bytes << " bytes at " << offset;
    }
  }
}

}  // namespace
}  // namespace farandole
