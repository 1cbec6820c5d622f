// Strings that are not UTF-8, which no message to the coordinator can hold, in each function that takes one.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "worker/farandole.h"

namespace {

constexpr char kWrong[] = "gr\xF6\xDF\x65";  // of Latin-1
constexpr char kShown[] = "\"gr\\xf6\\xdfe\" is not UTF-8";

// In a job of size 1.
class CTextsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(farandole_init(nullptr, nullptr), FARANDOLE_OK) << farandole_last_error(); }
  void TearDown() override { EXPECT_EQ(farandole_shutdown(nullptr), FARANDOLE_OK); }

  // Called with its name, group and time to wait.
  using Operation = std::function<int64_t(const char*, int32_t, int64_t)>;
  std::map<std::string, Operation> Operations() {
    float* const data = &value_;
    const int64_t* const shape = &shape_;
    return {
        {"allreduce",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_allreduce(name, data, data, shape, 1, FARANDOLE_F32, FARANDOLE_SUM, 1, 1, group, wait_ms);
         }},
        {"allreduce_now",
         [=](auto name, auto group, auto wait_ms) -> int64_t {
           farandole_handle handle = 0;
           return -farandole_allreduce_now(name, data, data, shape, 1, FARANDOLE_F32, FARANDOLE_SUM, 1, 1, group,
                                           wait_ms, &handle);
         }},
        {"grouped_allreduce",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_grouped_allreduce(name, &tensor_, 1, FARANDOLE_F32, FARANDOLE_SUM, 1, 1, group, wait_ms,
                                              nullptr);
         }},
        {"allgather",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_allgather(name, data, shape, 1, FARANDOLE_F32, group, wait_ms, nullptr);
         }},
        {"allgather, a part",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_allgather(name, data, shape, 1, FARANDOLE_F32, group, wait_ms, &part_);
         }},
        {"alltoall",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_alltoall(name, data, shape, 1, FARANDOLE_F32, nullptr, 0, group, wait_ms);
         }},
        {"gather",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_gather(name, data, shape, 1, FARANDOLE_F32, 0, group, wait_ms);
         }},
        {"scatter",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_scatter(name, data, shape, 1, FARANDOLE_F32, 0, group, wait_ms);
         }},
        {"broadcast",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_broadcast(name, data, data, shape, 1, FARANDOLE_F32, 0, group, wait_ms);
         }},
        {"reducescatter",
         [=](auto name, auto group, auto wait_ms) {
           return farandole_reducescatter(name, data, data, shape, 1, FARANDOLE_F32, FARANDOLE_SUM, 1, 1, group,
                                          wait_ms, nullptr);
         }},
        {"barrier", &farandole_barrier},
    };
  }

  float value_ = 1;
  int64_t shape_ = 1;
  const farandole_tensor tensor_ = {&value_, &value_, &shape_, 1};
  const farandole_member member_ = {&shape_, 1, FARANDOLE_F32, 0};
  const farandole_part part_ = {&member_, 1, 0};
};

TEST_F(CTextsTest, AnOperationRefusesSuchAName) {
  const int32_t all = 0;
  int32_t set = 0;
  ASSERT_EQ(farandole_add_group(&all, 1, &set, nullptr), FARANDOLE_OK) << farandole_last_error();
  const int32_t unknown = set + 1;
  for (const auto& [operation, call] : Operations()) {
    for (const int32_t group : {0, set, unknown}) {
      for (const int64_t wait_ms : {int64_t{0}, int64_t{-1}, FARANDOLE_BRIEFLY}) {
        for (int turn = 0; turn < 2; ++turn) {
          EXPECT_EQ(call(kWrong, group, wait_ms), -FARANDOLE_INVALID_ARGUMENT) << operation;
          EXPECT_NE(std::string(farandole_last_error()).find(kShown), std::string::npos) << farandole_last_error();
        }
      }
    }
    EXPECT_GE(call("gr\xC3\xB6\xC3\x9F\x65", set, -1), 0) << operation << ": " << farandole_last_error();
  }
}

TEST_F(CTextsTest, ALongNameIsCutWithinNoCharacter) {
  std::string name = "x";
  while (name.size() < 600) name += "\xC3\xB6";
  EXPECT_EQ(farandole_barrier(name.c_str(), 0, -1), -FARANDOLE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(farandole_last_error()).find("\xC3\xB6..."), std::string::npos) << farandole_last_error();
}

TEST_F(CTextsTest, OtherNamesAreRefusedToo) {
  char directory[] = "/tmp/c_texts.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const char* path = nullptr;
  int64_t number = 0;
  int64_t step = 0;
  farandole_arena* arena = nullptr;
  const std::map<std::string, std::function<int64_t()>> calls = {
      {"arena_create", [&] { return farandole_arena_create(kWrong, 4096, 0, &arena, nullptr); }},
      {"checkpoint_begin", [&] { return farandole_checkpoint_begin(directory, kWrong, 1, "bin", 0, &number, &path); }},
      {"checkpoint_find", [&] { return farandole_checkpoint_find(directory, kWrong, -1, &path, &step); }},
  };
  for (const auto& [function, call] : calls) {
    EXPECT_EQ(call(), FARANDOLE_INVALID_ARGUMENT) << function;
    EXPECT_NE(std::string(farandole_last_error()).find(kShown), std::string::npos) << farandole_last_error();
  }
  EXPECT_EQ(farandole_log(kWrong, 1, FARANDOLE_NEXT_STEP, 0), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_section_begin(kWrong), -FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(rmdir(directory), 0) << "nothing was written";
}

TEST_F(CTextsTest, WordsOfAFailureAreReplaced) {
  EXPECT_EQ(farandole_depart(0, kWrong), FARANDOLE_FAILED_PRECONDITION) << "the job is not elastic";
  EXPECT_EQ(farandole_fail("bad \xFF\xFE words"), FARANDOLE_OK);
  EXPECT_EQ(farandole_epoch_ended(), FARANDOLE_ABORTED);
  EXPECT_NE(std::string(farandole_last_error()).find("bad \xEF\xBF\xBD\xEF\xBF\xBD words"), std::string::npos)
      << farandole_last_error();
}

TEST(CTextsOfInitTest, TheJobsNameIsChecked) {
  farandole_init_options options = {};
  options.struct_bytes = sizeof(options);
  options.job = kWrong;
  EXPECT_EQ(farandole_init(&options, nullptr), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_last_error(), std::string("FARANDOLE_JOB ") + kShown);
  EXPECT_EQ(farandole_is_initialized(), 0);
}

}  // namespace
