// Jobs of size 1: what needs no peer.
#include "farandole/job.h"

#include <stdlib.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "farandole/farandole.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// This program's own; the worker library, which is in a scope of its own, has others. GCC must not inline one of a pair
// without the other: it would then warn that free() does not match operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1);
  if (void* const made = malloc(bytes); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace farandole {
namespace {

TEST(JobTest, CallsAllocateNothingInTheSteadyState) {
  StatusOr<Job> job = Init();
  ASSERT_TRUE(job.ok()) << job.status().message();
  std::vector<float> input(100, 1);
  std::vector<float> output(100);
  const std::vector<MutableTensor> grouped = {input, output};
  const auto call_all = [&] {
    ASSERT_TRUE(job->Allreduce(input, output, "one").ok());
    ASSERT_TRUE(job->AllreduceInPlace(output, Call("two").With(ReduceOp::kSum)).ok());
    ASSERT_TRUE(job->AllreduceInPlaceAsync(output, "three").Wait().ok());
    ASSERT_TRUE(job->BroadcastInPlace(output, 0, "four").ok());
    ASSERT_TRUE(job->Reducescatter(input, output, "five").ok());
    ASSERT_TRUE(job->GroupedAllreduceInPlace(grouped, "six").ok());
    ASSERT_TRUE(job->Barrier("seven").ok());
    auto then = job->AllreduceInPlaceAsync(output, "eight").Then([](Status status) { return status.ok(); });
    ASSERT_TRUE(then.Wait());
  };
  call_all();
  const int64_t before = allocations.load();
  for (int turn = 0; turn < 10; ++turn) call_all();
  EXPECT_EQ(allocations.load(), before);
}

TEST(JobTest, AProcessMayBeAWorkerAgain) {
  for (int life = 0; life < 3; ++life) {
    StatusOr<Job> job = Init();
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_EQ(job->rank(), 0);
    EXPECT_EQ(job->size(), 1);
    if (life == 1) {
      EXPECT_TRUE(job->Shutdown().ok());
      EXPECT_EQ(job->Barrier().code(), StatusCode::kFailedPrecondition);
    }
  }
}

TEST(JobTest, SectionsOfTheProgramAreMarked) {
  Job job = *Init();
  Section data(job, "data");
  EXPECT_TRUE(data.status().ok());
  {
    const Section within(job, "decode");
    EXPECT_TRUE(within.status().ok());
  }
  Section moved = std::move(data);
  moved.End();
  moved.End();
  const Section wrong(job, std::string(65, 'x'));
  EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(wrong.status().message().find("has 65 bytes; a section's name has 1 to 64"), std::string::npos);
}

TEST(JobTest, AWrongOptionIsNamed) {
  Options options;
  options.transport = "pigeon";
  EXPECT_NE(Init(options).status().message().find("pigeon"), std::string::npos);
}

TEST(JobTest, AJobEndsWithAnExceptionThatLeavesItsScope) {
  EXPECT_THROW(
      {
        Job job = *Init();
        throw std::runtime_error("the program's own");
      },
      std::runtime_error);
  EXPECT_TRUE(Init().ok());
}

TEST(JobTest, AContainerIsSeenAsItIs) {
  static_assert(std::is_constructible_v<MutableTensor, std::vector<float>&>);
  static_assert(!std::is_constructible_v<MutableTensor, const std::vector<float>&>,
                "nothing is written into constants");
  static_assert(!std::is_constructible_v<MutableTensor, std::vector<float>>, "nor into what is about to end");
  static_assert(std::is_constructible_v<ConstTensor, std::vector<float>>);
  static_assert(!std::is_constructible_v<ConstTensor, std::vector<bool>>, "its elements are bits");
  const double numbers[6] = {};
  EXPECT_EQ(ConstTensor(numbers, {2, 3}).shape().ToString(), "[2,3]");
  EXPECT_EQ(ConstTensor(numbers).shape().ToString(), "[6]");
  EXPECT_EQ(ConstTensor(numbers, {4}).Check().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Scalar(&numbers[0]).shape().ndim(), 0);
}

TEST(LibraryTest, AMissingLibraryIsNamedWithItsRemedy) {
  LibraryOptions options;
  options.path = "/nowhere/libfarandole.so";
  const Status status = OpenLibrary(options).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/nowhere/libfarandole.so"), std::string::npos);
  EXPECT_NE(status.message().find("FARANDOLE_LIBRARY"), std::string::npos);
  options.path = "libc.so.6";
  EXPECT_NE(OpenLibrary(options).status().message().find("lacks the function"), std::string::npos);
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  setenv("FARANDOLE_LIBRARY", "worker/libfarandole.so", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
