// A call's submissions in a job of size 1, with the worker library that programs load.
#include "sdk/adapter/call.h"

#include <dlfcn.h>

#include <vector>

#include "gtest/gtest.h"

namespace farandole::adapter {
namespace {

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// An allgather of one float.
class Gathering : public Call {
 public:
  explicit Gathering(int32_t group) {
    terms_.op = Op::kAllgather;
    terms_.group = group;
    tensors_.push_back({&value_, nullptr, FARANDOLE_F32, {1}, 0});
  }
  const Terms& terms() const override { return terms_; }
  void Deliver() override {
    int64_t bytes = 0;
    EXPECT_TRUE(Settle() && ReadResult(tensors_[0], &bytes, &rows_)) << message();
    EXPECT_EQ(bytes, static_cast<int64_t>(sizeof(value_)));
    Release();
  }
  const std::vector<int64_t>& rows() const { return rows_; }

 private:
  float value_ = 1;
  Terms terms_;
  std::vector<int64_t> rows_;
};

TEST(CallTest, AResultOutlivesItsGroup) {
  const char* const path = "worker/libfarandole.so";
  ASSERT_EQ(farandole_adapter_connect(path, 0), nullptr) << farandole_adapter_connect(path, 0);
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  ASSERT_EQ(Find<decltype(farandole_init)>(library, "farandole_init")(nullptr, nullptr), FARANDOLE_OK);
  const int32_t rank = 0;
  int32_t group = 0;
  ASSERT_EQ(Find<decltype(farandole_add_group)>(library, "farandole_add_group")(&rank, 1, &group, nullptr),
            FARANDOLE_OK);
  Gathering call(group);
  ASSERT_TRUE(call.Submit(-1));
  ASSERT_TRUE(call.IsComplete());
  EXPECT_EQ(Find<decltype(farandole_remove_group)>(library, "farandole_remove_group")(group, nullptr), FARANDOLE_OK);
  call.Deliver();
  EXPECT_EQ(call.rows(), std::vector<int64_t>({1}));
  EXPECT_EQ(Find<decltype(farandole_shutdown)>(library, "farandole_shutdown")(nullptr), FARANDOLE_OK);
}

}  // namespace
}  // namespace farandole::adapter
