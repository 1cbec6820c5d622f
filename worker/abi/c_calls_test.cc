// Calls of the C interface that run at the same time, or one within another.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/farandole.h"

namespace {

constexpr int kThreads = 4;
constexpr int kLives = 20;

// The action of the next `interrupted`.
std::function<int()> within;

int Within() { return within ? within() : 0; }

TEST(CCallsTest, ThreadsFailAddGroupsAndShutDownAtTheSameTime) {
  for (int life = 0; life < kLives; ++life) {
    ASSERT_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error();
    std::atomic<int> waiting{kThreads};
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&waiting, number] {
        waiting.fetch_sub(1);
        while (waiting.load() > 0) std::this_thread::yield();
        const int32_t all = 0;
        int32_t group = 0;
        for (int i = 0; i < 10; ++i) farandole_add_group(&all, 1, &group, nullptr);
        farandole_fail(("thread " + std::to_string(number)).c_str());
        EXPECT_EQ(farandole_shutdown(nullptr), FARANDOLE_OK) << farandole_last_error();
        EXPECT_EQ(farandole_is_initialized(), 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(CCallsTest, ThreadsThatInitialize) {
  std::atomic<int> successes{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&successes] {
      const int code = farandole_init(nullptr, nullptr);
      EXPECT_TRUE(code == FARANDOLE_OK || code == FARANDOLE_FAILED_PRECONDITION) << farandole_last_error();
      if (code == FARANDOLE_OK) successes.fetch_add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(successes.load(), 1);
  EXPECT_EQ(farandole_shutdown(nullptr), FARANDOLE_OK);
}

TEST(CCallsTest, WhatMayBeCalledWithinShutdown) {
  ASSERT_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error();
  int asked = 0;
  within = [&asked] {
    if (++asked > 1) return 0;
    EXPECT_EQ(farandole_shutdown(Within), FARANDOLE_OK);
    EXPECT_EQ(farandole_is_initialized(), 0);
    EXPECT_EQ(farandole_init(nullptr, Within), FARANDOLE_FAILED_PRECONDITION);
    EXPECT_NE(std::string(farandole_last_error()).find("init() was called within shutdown()"), std::string::npos);
    EXPECT_EQ(farandole_rejoin(Within), FARANDOLE_FAILED_PRECONDITION);
    const int32_t all = 0;
    int32_t group = 0;
    EXPECT_EQ(farandole_add_group(&all, 1, &group, Within), FARANDOLE_FAILED_PRECONDITION);
    EXPECT_EQ(farandole_remove_group(1, Within), FARANDOLE_FAILED_PRECONDITION);
    EXPECT_EQ(farandole_rank(), 0);
    return 0;
  };
  EXPECT_EQ(farandole_shutdown(Within), FARANDOLE_OK) << farandole_last_error();
  within = nullptr;
  EXPECT_GE(asked, 1);
  EXPECT_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error();
  EXPECT_EQ(farandole_shutdown(nullptr), FARANDOLE_OK);
}

TEST(CCallsTest, AnAllreduceThatIsWrongIsToldSoBeforeInit) {
  float value = 1;
  const int64_t shape = 1;
  const auto submit = [&](int32_t dtype, int32_t op, int32_t group, float* output, int32_t ndim) {
    farandole_handle handle = 7;
    const int code = farandole_allreduce_now("t", &value, output, &shape, ndim, dtype, op, 1, 1, group, -1, &handle);
    EXPECT_EQ(handle, 0);
    const std::string error = farandole_last_error();
    for (const int64_t wait_ms : {int64_t{0}, FARANDOLE_BRIEFLY}) {
      EXPECT_EQ(farandole_allreduce("t", &value, output, &shape, ndim, dtype, op, 1, 1, group, wait_ms), -code);
      EXPECT_EQ(farandole_last_error(), error) << "all calls tell the same";
    }
    return code;
  };
  EXPECT_EQ(submit(99, FARANDOLE_SUM, 0, &value, 1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(FARANDOLE_F32, 99, 0, &value, 1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(FARANDOLE_F32, FARANDOLE_SUM, -1, &value, 1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(FARANDOLE_F32, FARANDOLE_SUM, 0, nullptr, 1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(FARANDOLE_F32, FARANDOLE_SUM, 0, &value, -1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(FARANDOLE_F32, FARANDOLE_SUM, 0, &value, 1), FARANDOLE_FAILED_PRECONDITION);
}

TEST(CCallsTest, AThreadHearsOfWhatOthersHaveSubmitted) {
  ASSERT_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error();
  uint64_t completions = 0;
  EXPECT_EQ(farandole_wait_for_completion(&completions, 0), FARANDOLE_STILL_PENDING);
  float value = 1;
  const int64_t shape = 1;
  for (uint64_t round = 0; round < 100; ++round) {
    farandole_handle handle = 0;
    std::thread submitting([&] {
      const int64_t wait_ms = round % 2 == 0 ? 0 : FARANDOLE_BRIEFLY;
      handle = farandole_allreduce("t", &value, &value, &shape, 1, FARANDOLE_F32, FARANDOLE_SUM, 1, 1, 0, wait_ms);
    });
    EXPECT_EQ(farandole_wait_for_completion(&completions, -1), FARANDOLE_OK);
    EXPECT_EQ(completions, round + 1);
    submitting.join();
    EXPECT_EQ(farandole_poll(handle), 1);
    farandole_release(handle);
  }
  EXPECT_EQ(farandole_wait_for_completion(&completions, 1), FARANDOLE_STILL_PENDING);
  EXPECT_EQ(farandole_shutdown(nullptr), FARANDOLE_OK);
  EXPECT_EQ(farandole_wait_for_completion(&completions, 0), FARANDOLE_FAILED_PRECONDITION);
}

}  // namespace
