// Grouped calls that take several submissions.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

// A call of `count` tensors of one element, each of which is a submission, as one rank makes it.
class Call {
 public:
  // `name`: empty, the call is unnamed. Tensor i holds `value` + i.
  Call(TestEpoch* epoch, int rank, const std::string& name, int count, float value)
      : epoch_(epoch), rank_(rank), members_(count, GroupMember{DType::kF32, false, {1}}) {
    for (int i = 0; i < count; ++i) {
      const std::string own_name = name.empty() || i == 0 ? name : absl::StrCat(name, ".", i);
      parts_.emplace_back(own_name, std::vector<float>(1, value + static_cast<float>(i)));
    }
  }
  void Submit() {
    for (TestTensor& part : parts_) {
      if (&part == &parts_.front()) part.members = &members_;
      part.after = &part == &parts_.front() ? 0 : parts_.front().handle;
      ASSERT_TRUE(epoch_->Submit(rank_, part).ok());
    }
  }
  // Each part's outcome.
  std::vector<absl::StatusCode> Wait() {
    std::vector<absl::StatusCode> codes;
    for (TestTensor& part : parts_) codes.push_back(epoch_->Wait(rank_, part).code());
    return codes;
  }
  std::vector<float> values() const {
    std::vector<float> values;
    for (const TestTensor& part : parts_) values.push_back(part.values[0]);
    return values;
  }

 private:
  TestEpoch* const epoch_;
  const int rank_;
  const std::vector<GroupMember> members_;
  std::vector<TestTensor> parts_;
};

std::vector<absl::StatusCode> Codes(int count, absl::StatusCode code) {
  return std::vector<absl::StatusCode>(static_cast<size_t>(count), code);
}

class EngineGroupsTest : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(EngineGroupsTest, AllPartsFailWhereRanksHaveDifferentNumbersOfTensors) {
  TestEpoch epoch(GetParam());
  epoch.OnEachRank([&](int rank) {
    // At first the name is new, later it has a slot.
    for (int round = 0; round < 3; ++round) {
      for (const std::string name : {"", "t"}) {
        const int count = rank == 0 ? 2 : 3;
        Call different(&epoch, rank, name, count, 0.0f);
        ASSERT_NO_FATAL_FAILURE(different.Submit());
        ASSERT_EQ(different.Wait(), Codes(count, absl::StatusCode::kInvalidArgument));
        Call equal(&epoch, rank, name, 3, 1.0f);
        ASSERT_NO_FATAL_FAILURE(equal.Submit());
        ASSERT_EQ(equal.Wait(), Codes(3, absl::StatusCode::kOk));
        const auto size = static_cast<float>(epoch.size());
        ASSERT_EQ(equal.values(), (std::vector<float>{size, 2 * size, 3 * size}));
      }
    }
  });
}

TEST_P(EngineGroupsTest, UnnamedPartsArePairedWhateverIsSubmittedBesideThem) {
  TestEpoch epoch(GetParam());
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 10; ++round) {
      Call first(&epoch, rank, "", 3, 1.0f);
      Call second(&epoch, rank, "", 2, 10.0f);
      TestTensor between("", {100.0f});
      TestTensor after("", std::vector<float>(5000, 200.0f));
      ASSERT_NO_FATAL_FAILURE(first.Submit());
      ASSERT_TRUE(epoch.Submit(rank, between).ok());
      ASSERT_NO_FATAL_FAILURE(second.Submit());
      ASSERT_TRUE(epoch.Submit(rank, after).ok());
      ASSERT_TRUE(epoch.Wait(rank, after).ok());
      ASSERT_TRUE(epoch.Wait(rank, between).ok());
      ASSERT_EQ(second.Wait(), Codes(2, absl::StatusCode::kOk));
      ASSERT_EQ(first.Wait(), Codes(3, absl::StatusCode::kOk));
      const auto size = static_cast<float>(epoch.size());
      ASSERT_EQ(first.values(), (std::vector<float>{size, 2 * size, 3 * size}));
      ASSERT_EQ(second.values(), (std::vector<float>{10 * size, 11 * size}));
      ASSERT_EQ(between.values[0], 100 * size);
      ASSERT_EQ(after.values, std::vector<float>(5000, 200 * size));
    }
  });
}

TEST_P(EngineGroupsTest, ARankJoinsAfterAllPartsOfItsCalls) {
  TestEpoch epoch(GetParam());
  epoch.OnEachRank([&](int rank) {
    Call call(&epoch, rank, "t", 3, 1.0f);
    ASSERT_NO_FATAL_FAILURE(call.Submit());
    int32_t last = -1;
    const absl::StatusOr<int64_t> joining = epoch.BeginJoining(rank, &last);
    ASSERT_TRUE(joining.ok());
    ASSERT_EQ(call.Wait(), Codes(3, absl::StatusCode::kOk));
    const auto size = static_cast<float>(epoch.size());
    ASSERT_EQ(call.values(), (std::vector<float>{size, 2 * size, 3 * size}));
    ASSERT_TRUE(epoch.engine(rank).Wait(*joining, -1, true).ok());
  });
}

TEST_P(EngineGroupsTest, TheEndOfTheEpochEndsWhatTheTableHolds) {
  TestEpoch epoch(GetParam());
  // No other rank submits anything.
  Call call(&epoch, 0, "t", 3, 1.0f);
  ASSERT_NO_FATAL_FAILURE(call.Submit());
  epoch.AbortAll(absl::AbortedError("rank 1 was lost"));
  EXPECT_EQ(call.Wait(), Codes(3, absl::StatusCode::kAborted));
  EXPECT_EQ(epoch.engine(0).table().pending(), 0);
}

TEST_P(EngineGroupsTest, APartNeedsTheHandleOfItsCallsFirstOne) {
  TestEpoch epoch(GetParam());
  TestTensor part("t.1", {1.0f});
  part.after = 12345;
  EXPECT_EQ(epoch.Submit(0, part),
            absl::InvalidArgumentError("t.1: there is no handle 12345 of the call's first submission"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineGroupsTest,
                         ::testing::Values(std::vector<int>{2}, std::vector<int>{4}, std::vector<int>{2, 1}),
                         ShapeName);

}  // namespace
}  // namespace farandole
