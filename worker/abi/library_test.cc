// The worker library as programs load it.
#include <dlfcn.h>

#include <cstdint>

#include "gtest/gtest.h"
#include "worker/farandole.h"

namespace {

class LibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("worker/libfarandole.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }

  template <typename Function>
  Function* Find(const char* name) {
    Function* const found = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_NE(found, nullptr) << dlerror();
    return found;
  }

  void* library_ = nullptr;
};

TEST_F(LibraryTest, AJobOfOneRunsInIt) {
  EXPECT_EQ(Find<decltype(farandole_abi_version)>("farandole_abi_version")(), FARANDOLE_ABI_VERSION);
  ASSERT_EQ(Find<decltype(farandole_init)>("farandole_init")(nullptr, nullptr), FARANDOLE_OK)
      << Find<decltype(farandole_last_error)>("farandole_last_error")();
  EXPECT_EQ(Find<decltype(farandole_size)>("farandole_size")(), 1);
  const float input[] = {1, 2, 3};
  float output[3] = {};
  const int64_t shape = 3;
  const farandole_handle handle = Find<decltype(farandole_allreduce)>("farandole_allreduce")(
      "x", input, output, &shape, 1, FARANDOLE_F32, FARANDOLE_SUM, 2.0, 1.0, 0, 10'000);
  ASSERT_GT(handle, 0) << Find<decltype(farandole_last_error)>("farandole_last_error")();
  EXPECT_EQ(Find<decltype(farandole_finish)>("farandole_finish")(handle, 10'000), FARANDOLE_OK)
      << Find<decltype(farandole_last_error)>("farandole_last_error")();
  EXPECT_EQ(output[0], 2);
  EXPECT_EQ(output[2], 6);
  EXPECT_EQ(Find<decltype(farandole_shutdown)>("farandole_shutdown")(nullptr), FARANDOLE_OK)
      << Find<decltype(farandole_last_error)>("farandole_last_error")();
}

}  // namespace
