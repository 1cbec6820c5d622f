#include "worker/engine/batch_runner.h"

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/order/epoch_page.h"

// ASan's allocator ends a program that asks for more than there is, where others return null.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A started collective. Its Advance calls have the given outcomes, in turn; `false` is "nothing to do yet".
class ScriptedOperation final : public Operation {
 public:
  explicit ScriptedOperation(std::vector<absl::StatusOr<bool>>* outcomes) : outcomes_(outcomes) {}
  absl::StatusOr<bool> Advance() override {
    absl::StatusOr<bool> next = outcomes_->front();
    outcomes_->erase(outcomes_->begin());
    return next;
  }
  bool moved() const override { return false; }

 private:
  std::vector<absl::StatusOr<bool>>* const outcomes_;
};

// A rank alone, whose entries the test writes. Slots are 1, 2, ... in the order of new names.
class BatchRunnerTest : public ::testing::Test {
 protected:
  ~BatchRunnerTest() override { ::operator delete[](memory_, std::align_val_t(64)); }

  int64_t Submit(const std::string& name, float* values, std::vector<int64_t> shape, OpType op = OpType::kAllreduce) {
    const TensorView view = {values, values, shape};
    Request request;
    request.name = name;
    request.op = op;
    request.tensors = absl::MakeConstSpan(&view, 1);
    const absl::StatusOr<int64_t> handle = table_.Submit(request);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *handle : 0;
  }
  static Entry EntryOf(OpType op, std::vector<Entry::Item> items) {
    Entry entry;
    entry.op = op;
    entry.items.assign(items.begin(), items.end());
    return entry;
  }
  // "pending", "ok", or the error.
  std::string StateOf(int64_t handle) {
    const absl::StatusOr<bool> complete = table_.DoneWaiting(table_.BeginWaiting(handle), /*release=*/false);
    if (!complete.ok()) return std::string(complete.status().message());
    return *complete ? "ok" : "pending";
  }
  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective) {
    if (!start_status_.ok()) return start_status_;
    started_.push_back(collective.op);
    counts_.push_back(collective.count);
    fragments_.push_back(collective.fragments.size());
    if (!collective.fragments.empty()) output_ = collective.fragments[0].output;
    return std::make_unique<ScriptedOperation>(&outcomes_);
  }

  char* memory_ = new (std::align_val_t(64)) char[EpochPage::Bytes(1)]();
  EpochPage page_{memory_, 0, 1};
  RankMeter meter_{nullptr};
  SubmissionTable table_{SubmissionOptions{0, 1, &page_}};
  absl::Status start_status_;
  std::vector<absl::StatusOr<bool>> outcomes_;
  std::vector<OpType> started_;
  std::vector<int64_t> counts_;
  std::vector<size_t> fragments_;
  // Of the collective that was started last: where its first fragment goes to.
  void* output_ = nullptr;
  BatchRunner runner_{0, "rank 0", [this](const Collective& collective) { return Start(collective); }, &table_,
                      &meter_};
  float values_[8] = {};
};

TEST_F(BatchRunnerTest, ABatchRunsUntilItsCollectiveIsComplete) {
  const int64_t handle = Submit("t", values_, {3});
  outcomes_ = {false, true};
  const Entry entry = EntryOf(OpType::kAllreduce, {{1, 0, 3}});
  ASSERT_TRUE(runner_.Begin(entry).ok());
  EXPECT_TRUE(runner_.is_running());
  EXPECT_EQ(*runner_.Advance(entry), false);
  EXPECT_EQ(StateOf(handle), "pending");
  EXPECT_EQ(*runner_.Advance(entry), true);
  EXPECT_FALSE(runner_.is_running());
  EXPECT_EQ(StateOf(handle), "ok");
  EXPECT_EQ(runner_.batches(), 1u);
  EXPECT_EQ(runner_.bytes(), 12u);
}

TEST_F(BatchRunnerTest, NeighboursInMemoryBecomeOneFragment) {
  Submit("a", values_, {2});
  Submit("b", values_ + 2, {3});
  Submit("c", values_ + 6, {1});
  outcomes_ = {true};
  ASSERT_TRUE(runner_.Begin(EntryOf(OpType::kAllreduce, {{1, 0, 2}, {2, 0, 3}, {3, 0, 1}})).ok());
  EXPECT_THAT(fragments_, ElementsAre(2));
  EXPECT_THAT(counts_, ElementsAre(6));
}

TEST_F(BatchRunnerTest, ABatchWithoutElementsEndsAtOnce) {
  const int64_t handle = Submit("t", values_, {0});
  ASSERT_TRUE(runner_.Begin(EntryOf(OpType::kAllreduce, {{1, 0, 0}})).ok());
  EXPECT_FALSE(runner_.is_running());
  EXPECT_EQ(StateOf(handle), "ok");
  EXPECT_THAT(started_, ElementsAre());
}

TEST_F(BatchRunnerTest, AnAlltoallExchangesItsRowsBeforeItMovesThem) {
  const int64_t handle = Submit("t", values_, {4, 2}, OpType::kAlltoall);
  outcomes_ = {true, true};
  const Entry entry = EntryOf(OpType::kAlltoall, {{1, 0, 2}});
  ASSERT_TRUE(runner_.Begin(entry).ok());
  EXPECT_THAT(counts_, ElementsAre(1));
  // The scripted collective moves nothing: no rows are received. This rank's 8 elements are still to be sent.
  ASSERT_TRUE(runner_.Advance(entry).ok());
  EXPECT_TRUE(runner_.is_running());
  EXPECT_THAT(started_, ElementsAre(OpType::kAlltoall, OpType::kAlltoall));
  ASSERT_TRUE(runner_.Advance(entry).ok());
  EXPECT_EQ(StateOf(handle), "ok");
}

TEST_F(BatchRunnerTest, NumbersOfRowsThatNoRankSendsEndAnAlltoall) {
  for (const int64_t rows : {int64_t{-1}, int64_t{1} << 44}) {
    const int64_t handle = Submit("t", values_, {4, 2}, OpType::kAlltoall);
    outcomes_ = {true};
    const Entry entry = EntryOf(OpType::kAlltoall, {{1, 0, 2}});
    ASSERT_TRUE(runner_.Begin(entry).ok());
    // Somebody between the hosts has changed them.
    *static_cast<int64_t*>(output_) = rows;
    const absl::Status status = runner_.Advance(entry).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("rank 0 says that it has ", rows, " rows of 8 bytes for rank 0")));
    runner_.Fail(status);
    EXPECT_THAT(StateOf(handle), HasSubstr("rows of 8 bytes"));
    table_.Release(handle);
  }
}

TEST_F(BatchRunnerTest, AResultThatNoMemoryHoldsEndsAnAllgather) {
  const int64_t rows = int64_t{1} << 44;
  const int64_t handle = Submit("large", values_, {1}, OpType::kAllgather);
  Entry entry = EntryOf(OpType::kAllgather, {{1, 0, 1}});
  entry.counts.assign({rows});
  const absl::Status begun = runner_.Begin(entry);
  EXPECT_EQ(begun.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(begun.message(), "rank 0 has no memory for the 70368744177664 bytes of the result of 'large'");
  EXPECT_THAT(started_, ElementsAre());
  runner_.Fail(begun);
  EXPECT_THAT(StateOf(handle), HasSubstr("no memory"));
}

TEST_F(BatchRunnerTest, ABatchOfOthersIsNoneOfThisRank) {
  table_.answers().OnGroupAdded(1, {1, 2});
  Entry entry = EntryOf(OpType::kAllreduce, {{9, 0, 3}});
  for (const uint32_t group : {1, 2}) {
    entry.group = group;
    EXPECT_TRUE(runner_.Begin(entry).ok());
    EXPECT_FALSE(runner_.is_running());
  }
  EXPECT_EQ(runner_.batches(), 0u);
}

TEST_F(BatchRunnerTest, AfterAnErrorTheBatchRunsUntilItIsFailed) {
  const int64_t handle = Submit("t", values_, {3});
  start_status_ = absl::UnavailableError("no way to rank 1");
  const Entry entry = EntryOf(OpType::kAllreduce, {{1, 0, 3}});
  EXPECT_EQ(runner_.Begin(entry), start_status_);
  EXPECT_TRUE(runner_.is_running());
  EXPECT_EQ(*runner_.Advance(entry), false);
  EXPECT_EQ(StateOf(handle), "pending");
  runner_.Fail(absl::AbortedError("the epoch has ended"));
  EXPECT_FALSE(runner_.is_running());
  EXPECT_EQ(StateOf(handle), "the epoch has ended");
}

TEST_F(BatchRunnerTest, ARunningCollectiveIsAdvancedOnceMoreBeforeItsMemoryIsGivenBack) {
  const int64_t handle = Submit("t", values_, {3});
  outcomes_ = {absl::AbortedError("stopped")};
  ASSERT_TRUE(runner_.Begin(EntryOf(OpType::kAllreduce, {{1, 0, 3}})).ok());
  runner_.Fail(absl::AbortedError("the epoch has ended"));
  EXPECT_TRUE(outcomes_.empty());
  EXPECT_EQ(StateOf(handle), "the epoch has ended");
}

TEST_F(BatchRunnerTest, ASlotWithoutASubmissionIsAnError) {
  const absl::Status status = runner_.Begin(EntryOf(OpType::kAllreduce, {{5, 0, 3}}));
  EXPECT_THAT(std::string(status.message()), HasSubstr("runs slot 5, in which rank 0 has no submission"));
}

}  // namespace
}  // namespace farandole
