#include "worker/member/gpu_health.h"

#include <mutex>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kS = 1'000'000'000;

class GpuHealthTest : public ::testing::Test {
 protected:
  GpuHealthTest() : health_({10 * kS, 60 * kS}, "") {
    health_.Watch({[this] { return is_used_; }, [this](int64_t) { return LookAtGpu(); },
                   [this] { return std::exchange(sample_, std::nullopt); },
                   [this] { return std::exchange(warning_, std::nullopt); }},
                  "rank 1", [this](LogLevel, const std::string& line) { said_.push_back(line); });
  }
  ~GpuHealthTest() override { health_.Stop(); }
  absl::StatusOr<GpuWatch::Late> LookAtGpu() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++looks_;
    return late_;
  }
  // The lookout's thread samples with the settings of this moment; a later question returns its findings.
  absl::Status See(absl::StatusOr<GpuWatch::Late> late, int64_t now_ns) {
    int before;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      late_ = std::move(late);
      before = looks_;
    }
    // Two looks from now, one has begun after `late` was set. While one is going on, the answer is without findings.
    absl::Status status = health_.Look(now_ns, pauses_);
    while (status.ok() && Looks() < before + 3) status = health_.Look(now_ns, pauses_);
    return status;
  }
  int Looks() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return looks_;
  }

  bool is_used_ = true;
  std::optional<GpuMeter::Sample> sample_;
  std::optional<std::string> warning_;
  std::vector<std::string> said_;
  std::mutex mutex_;
  int looks_ = 0;
  absl::StatusOr<GpuWatch::Late> late_ = GpuWatch::Late();
  Pauses pauses_;
  GpuHealth health_;
};

GpuWatch::Late Late(int64_t age_ns, bool is_first, bool is_computed) {
  return {"allreduce of g", age_ns, is_first, is_computed};
}

TEST_F(GpuHealthTest, AnUnusedGpuIsLeftAlone) {
  is_used_ = false;
  sample_ = GpuMeter::Sample();
  EXPECT_TRUE(health_.Look(kS, pauses_).ok());
  EXPECT_FALSE(health_.TakeStatus(kS).has_value());
  EXPECT_EQ(Looks(), 0);
}

TEST_F(GpuHealthTest, LateWorkIsWarnedOfAndEndsTheEpochAtTheLimit) {
  EXPECT_TRUE(See(Late(10 * kS, true, true), kS).ok());
  EXPECT_TRUE(said_.empty());
  EXPECT_TRUE(See(Late(11 * kS, true, true), 2 * kS).ok());
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0], "allreduce of g is on the GPU of rank 1 for 11 s; its tensors are there, and it waits for peers");
  EXPECT_TRUE(See(Late(21 * kS, true, true), 12 * kS).ok());
  EXPECT_EQ(said_.size(), 1u);
  EXPECT_TRUE(See(Late(22 * kS, true, true), 13 * kS).ok());
  EXPECT_EQ(said_.size(), 2u);
  EXPECT_EQ(See(Late(61 * kS, true, true), 52 * kS),
            absl::DeadlineExceededError("allreduce of g is on the GPU of rank 1 for 61 s; its tensors are there, and "
                                        "it waits for peers, and 60 s is the most (FARANDOLE_STALL_LIMIT_MS)"));
}

TEST_F(GpuHealthTest, OfTheRanksThatWaitOnlyTheFirstSpeaks) {
  EXPECT_TRUE(See(Late(30 * kS, false, true), kS).ok());
  EXPECT_TRUE(said_.empty());
  EXPECT_TRUE(See(Late(30 * kS, false, false), kS).ok());
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("this worker's own kernels have not computed its tensors yet"), std::string::npos);
}

TEST_F(GpuHealthTest, TimeInWhichThisProcessWasStoppedDoesNotCount) {
  pauses_.OnTick(kS);
  pauses_.OnTick(1001 * kS);
  EXPECT_TRUE(See(Late(1000 * kS, true, true), 1001 * kS).ok());
  EXPECT_EQ(said_, std::vector<std::string>{});
}

TEST_F(GpuHealthTest, AFailureOfTheGpuEndsTheEpoch) {
  EXPECT_EQ(See(absl::InternalError("an illegal address"), kS),
            absl::InternalError("the GPU of rank 1 has failed: an illegal address"));
}

TEST_F(GpuHealthTest, ItsOwnWarningsAreSaid) {
  warning_ = "it is hot";
  EXPECT_TRUE(health_.Look(kS, pauses_).ok());
  EXPECT_EQ(said_, std::vector<std::string>{"it is hot"});
}

TEST_F(GpuHealthTest, AStatusIsBoundedAndTakenBackWhenItIsOld) {
  EXPECT_FALSE(health_.TakeStatus(kS).has_value());
  GpuMeter::Sample sample;
  sample.name = std::string(200, 'x');
  sample.busy_percent = 130;
  sample.memory_used = ~uint64_t{0};
  sample_ = sample;
  const std::optional<v1::GpuStatus> status = health_.TakeStatus(2 * kS);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->gpu().name().size(), 96u);
  EXPECT_EQ(status->gpu().busy_percent(), 100u);
  EXPECT_EQ(status->gpu().memory_used_bytes(), uint64_t{1} << 44);
  EXPECT_FALSE(health_.TakeStatus(22 * kS).has_value());
  const std::optional<v1::GpuStatus> back = health_.TakeStatus(22 * kS + 1);
  ASSERT_TRUE(back.has_value());
  EXPECT_FALSE(back->has_gpu());
  EXPECT_FALSE(health_.TakeStatus(23 * kS).has_value());
}

}  // namespace
}  // namespace farandole
