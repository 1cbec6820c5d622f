#include "server/diagnosis/roll_up_history.h"

#include <malloc.h>

#include <map>
#include <memory>
#include <optional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr char kRows[] = "measured/acme/train/";
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

RollUp Ten(uint16_t waited, uint32_t steps = 10) { return {100, waited, waited, 50, 60, 900, steps}; }

// A store, and a history that lives on in it.
class RollUpHistoryTest : public testing::Test {
 protected:
  // Ten seconds in which each rank waited as it says.
  void Pass(const std::vector<uint16_t>& waited) {
    std::vector<RollUp> ranks;
    for (const uint16_t one : waited) ranks.push_back(Ten(one));
    history_->Add(history_->NumberAt(now_), ranks);
    now_ += absl::Seconds(10);
    if (saves_) Keep();
  }
  void PassAll(int64_t tens, const std::vector<uint16_t>& waited) {
    for (int64_t i = 0; i < tens; ++i) Pass(waited);
  }
  void Begin(uint64_t epoch, std::vector<int32_t> old_ranks = {}) {
    history_->Begin(epoch, std::move(old_ranks), now_, absl::ZeroDuration());
  }
  void Keep() {
    while (history_->IsDue()) {
      StoreBatch batch;
      const bool is_all = history_->Save(&batch);
      EXPECT_LE(batch.deletes.size() + batch.puts.size(), kMaxBatchOperations);
      size_t bytes = 0;
      for (const std::string& key : batch.deletes) EXPECT_EQ(rows_.erase(key), 1u) << key;
      for (StoreRow& row : batch.puts) {
        bytes += row.key.size() + row.value.size();
        written_ += row.key.size() + row.value.size();
        rows_[row.key] = std::move(row.value);
      }
      EXPECT_LE(bytes, kMaxBatchBytes);
      if (is_all) break;
    }
  }
  // The coordinator dies, and another one reads what is kept.
  void Restart(MemoryBudget* budget = nullptr) {
    history_ = std::make_unique<RollUpHistory>(kRows, budget);
    for (const auto& [key, value] : rows_) ASSERT_TRUE(history_->Load({key, value}).ok()) << key;
  }
  uint64_t StepsOf(uint64_t epoch, uint32_t rank) const {
    uint64_t steps = 0;
    for (const RollUpHistory::Point& point : history_->Read(epoch, rank)) steps += point.value.steps;
    return steps;
  }
  int64_t StoredBytes() const {
    int64_t bytes = 0;
    for (const auto& [key, value] : rows_) bytes += static_cast<int64_t>(key.size() + value.size());
    return bytes;
  }

  absl::Time now_ = kStart;
  bool saves_ = true;
  std::map<std::string, std::string> rows_;
  size_t written_ = 0;
  std::unique_ptr<RollUpHistory> history_ = std::make_unique<RollUpHistory>(kRows, nullptr);
};

TEST_F(RollUpHistoryTest, TheOlderTheCoarser) {
  Begin(1);
  const int64_t days = 5;
  PassAll(days * 8640, {100, 300});
  const std::vector<RollUpHistory::Point> points = history_->Read(1, 1);
  std::map<absl::Duration, absl::Duration> spans;
  for (size_t i = 0; i < points.size(); ++i) {
    spans[points[i].width] += points[i].width;
    EXPECT_EQ(points[i].value.waited, 300);
    if (i > 0) {
      EXPECT_EQ(points[i].value.steps, 10 * (points[i].width / absl::Seconds(10)));
    }
    if (i > 0) {
      EXPECT_EQ(points[i].at, points[i - 1].at + points[i - 1].width) << "neither twice nor not at all";
    }
  }
  EXPECT_EQ(points.back().at, now_ - absl::Seconds(10));
  EXPECT_GE(spans[absl::Seconds(10)], absl::Hours(1));
  EXPECT_GE(spans[absl::Minutes(1)], absl::Hours(5));
  EXPECT_GE(spans[absl::Minutes(10)], absl::Hours(66));
  EXPECT_GE(spans[absl::Hours(1)], absl::Hours(45));
  EXPECT_LE(points.front().at, kStart);
  // After a month no more is added.
  PassAll(40 * 8640, {100, 300});
  const int64_t bytes = history_->bytes();
  PassAll(8640, {100, 300});
  EXPECT_NEAR(static_cast<double>(history_->bytes()), static_cast<double>(bytes), 3 * 16 * 40);
  EXPECT_LT(bytes, 3 * 36'000) << "36 kB for each rank, and for the job, where there are few";
  EXPECT_LT(StoredBytes(), bytes * 5 / 4);
  EXPECT_LT(now_ - history_->Read(1, 0).front().at, absl::Hours(24 * 31));
}

TEST_F(RollUpHistoryTest, ARangeHasFewPointsWhateverItsLength) {
  Begin(1);
  PassAll(40 * 8640, {100, 300});
  const absl::Duration ten = absl::Minutes(10);
  const std::pair<absl::Duration, absl::Duration> ranges[] = {
      {ten, absl::Seconds(10)}, {absl::Hours(1), absl::Seconds(10)},    {absl::Hours(6), absl::Minutes(1)},
      {absl::Hours(72), ten},   {absl::Hours(24 * 30), absl::Hours(1)}, {absl::InfiniteDuration(), absl::Hours(1)}};
  for (const auto& [latest, width] : ranges) {
    for (const uint32_t rank : {1u, RollUpHistory::kWholeJob}) {
      const std::vector<RollUpHistory::Point> points = history_->Read(1, rank, latest);
      ASSERT_FALSE(points.empty()) << latest;
      EXPECT_LE(points.size(), static_cast<size_t>(RollUpHistory::kMostRead + 2)) << latest;
      if (latest != absl::InfiniteDuration()) {
        EXPECT_GT(points.front().at, now_ - latest - width) << latest;
        EXPECT_LE(points.front().at, now_ - latest + width) << latest;
      }
      EXPECT_GT(points.back().at + width, now_ - absl::Seconds(10)) << latest;
      for (size_t i = 0; i < points.size(); ++i) {
        EXPECT_EQ(points[i].width, width) << latest;
        EXPECT_EQ(points[i].value.waited, rank == 1 ? 300 : 200);
        if (i == 0) continue;
        EXPECT_EQ(points[i].at, points[i - 1].at + width) << latest << ", neither twice nor not at all";
        if (i + 1 < points.size()) {
          EXPECT_EQ(points[i].value.steps, 10 * (width / absl::Seconds(10))) << latest;
        }
      }
    }
  }
}

TEST_F(RollUpHistoryTest, AllOfAShortTimeIsInFineSteps) {
  Begin(1);
  PassAll(30, {100});
  EXPECT_EQ(history_->Read(1, 0, absl::InfiniteDuration()).size(), 30u);
  EXPECT_EQ(history_->Read(1, 0, absl::Minutes(2)).size(), 12u);
  EXPECT_EQ(history_->Read(1, 0, absl::Hours(1)).size(), 30u);
  EXPECT_TRUE(history_->Read(1, 7, absl::Hours(1)).empty());
  // Ten minutes of the past after a long break are those before the job's last point.
  now_ += absl::Hours(9);
  EXPECT_EQ(history_->Read(1, 0, absl::Minutes(2)).size(), 12u);
  const RollUpHistory nothing(kRows, nullptr);
  EXPECT_TRUE(nothing.Read(1, 0, absl::InfiniteDuration()).empty());
  EXPECT_TRUE(nothing.Read(1, 0, absl::Hours(1)).empty());
}

TEST_F(RollUpHistoryTest, SeveralRanksAreTheMeanOfThoseThatWereMeasured) {
  Begin(1);
  PassAll(3, {100, 200, 900, 500});
  std::vector<RollUp> ranks = {Ten(100), RollUp(), Ten(900), Ten(500)};
  history_->Add(history_->NumberAt(now_), ranks);
  const std::vector<RollUpHistory::Point> points = history_->ReadMean(1, {0, 1, 2}, absl::Hours(1));
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].value.waited, 400);
  EXPECT_EQ(points[0].value.most_waited, 900);
  EXPECT_EQ(points[0].value.cpu, 900);
  EXPECT_EQ(points[0].value.steps, 10u);
  EXPECT_EQ(points[3].value.waited, 500) << "of the two that were measured";
  // Of the next epoch: the same processes.
  now_ += absl::Seconds(10);
  Begin(2, {3, 2, -1});
  PassAll(2, {300, 700, 0});
  const std::vector<RollUpHistory::Point> both = history_->ReadMean(2, {0, 1}, std::nullopt);
  ASSERT_EQ(both.size(), 6u);
  EXPECT_EQ(both[0].value.waited, 700);
  EXPECT_EQ(both[5].value.waited, 500);
  EXPECT_EQ(history_->ReadMean(2, {2}, std::nullopt).size(), 2u);
  EXPECT_TRUE(history_->ReadMean(2, {}, std::nullopt).empty());
}

TEST_F(RollUpHistoryTest, TheUseOfGpusIsKeptWhereItIsKnown) {
  Begin(1);
  for (int i = 0; i < 8640; ++i) {
    std::vector<RollUp> ranks = {Ten(1000), Ten(1000), Ten(1000)};
    ranks[0].SetGpu(i % 2 == 0 ? 1000 : 0);
    ranks[0].SetGpuMemory(777);
    // Of rank 1 it is known in the second half of the day only.
    if (i >= 4320) ranks[1].SetGpu(400);
    history_->Add(history_->NumberAt(now_), ranks);
    now_ += absl::Seconds(10);
  }
  history_->Hasten();
  Keep();
  Restart();
  const std::vector<RollUpHistory::Point> first = history_->Read(1, 0);
  EXPECT_EQ(first.front().value.gpu(), 500) << "the mean of ten minutes";
  EXPECT_EQ(first.back().value.gpu(), 0);
  EXPECT_EQ(first.back().value.gpu_memory(), 777);
  const std::vector<RollUpHistory::Point> second = history_->Read(1, 1);
  EXPECT_EQ(second.front().value.gpu(), std::nullopt);
  EXPECT_EQ(second.back().value.gpu(), 400);
  EXPECT_EQ(history_->Read(1, 2).back().value.gpu(), std::nullopt);
  EXPECT_EQ(history_->Read(1, RollUpHistory::kWholeJob).back().value.gpu(), 200) << "of the two that have one";
  for (const RollUpHistory::Point& point : first) {
    EXPECT_EQ(point.value.waited, 1000);
    EXPECT_EQ(point.value.most_transfer, 60);
  }
}

TEST_F(RollUpHistoryTest, TheMostAndTheMeanAreThoseOfAllSeconds) {
  Begin(1);
  for (int i = 0; i < 8640; ++i) Pass({static_cast<uint16_t>(i % 6 == 0 ? 600 : 0), 0});
  const std::vector<RollUpHistory::Point> points = history_->Read(1, 0);
  EXPECT_EQ(points.front().width, absl::Minutes(10));
  EXPECT_EQ(points.front().value.most_waited, 600);
  EXPECT_NEAR(points[5].value.waited, 100, 2);
}

TEST_F(RollUpHistoryTest, TheWholeJobIsTheMeanOfItsRanksAndTheMost) {
  Begin(1);
  PassAll(3, {100, 200, 900});
  const std::vector<RollUpHistory::Point> points = history_->Read(1, RollUpHistory::kWholeJob);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].value.waited, 400);
  EXPECT_EQ(points[0].value.most_waited, 900);
  EXPECT_EQ(points[0].value.steps, 10u);
}

TEST_F(RollUpHistoryTest, AMemberGoesOnInTheNextEpochWhateverItsRankIsThere) {
  Begin(1);
  PassAll(20, {100, 200, 300});
  // Rank 1 is lost, and the third is another one.
  Begin(2, {0, 2, -1});
  PassAll(20, {110, 310, 400});
  EXPECT_EQ(history_->Read(2, 1).size(), 40u);
  EXPECT_EQ(history_->Read(2, 1).front().value.waited, 300);
  EXPECT_EQ(history_->Read(2, 1).back().value.waited, 310);
  EXPECT_EQ(history_->Read(2, 2).size(), 20u);
  EXPECT_EQ(history_->Read(1, 1).size(), 20u) << "the lost one's";
  EXPECT_EQ(history_->Read(1, 1).back().value.waited, 200);
  EXPECT_EQ(history_->Read(2, RollUpHistory::kWholeJob).size(), 40u);
  EXPECT_TRUE(history_->Read(2, 3).empty());
  EXPECT_TRUE(history_->Read(3, 0).empty());
  EXPECT_EQ(history_->ReadFinest(1).size(), 20u) << "of the epoch that runs";
  Restart();
  EXPECT_EQ(history_->Read(1, 1).size(), 20u);
  EXPECT_GE(history_->Read(2, 1).size(), 38u);
}

TEST_F(RollUpHistoryTest, EpochsThatFollowEachOtherQuicklyShareTensOfSeconds) {
  Begin(1);
  const int epochs = 50;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    if (epoch > 1) Begin(static_cast<uint64_t>(epoch), {0, 1});
    for (int i = 0; i < 3; ++i) {
      history_->Add(history_->NumberAt(now_), {{40, 0, 0, 0, 0, 0, 4}, {40, 0, 0, 0, 0, 0, 4}});
      now_ += absl::Seconds(4);
    }
    history_->Hasten();
    Keep();
  }
  EXPECT_EQ(StepsOf(epochs, 0), 4u * 3 * epochs);
  Restart();
  EXPECT_EQ(StepsOf(epochs, 0), 4u * 3 * epochs);
}

TEST_F(RollUpHistoryTest, ARestartLosesTheLastMinuteAtMost) {
  std::mt19937_64 random(7);
  uint64_t epoch = 1;
  Begin(epoch);
  for (int life = 0; life < 30; ++life) {
    const int64_t tens = std::uniform_int_distribution<int64_t>(1, 3000)(random);
    PassAll(tens, {100, 300});
    const std::vector<RollUpHistory::Point> before = history_->Read(epoch, 1);
    const uint64_t steps = StepsOf(epoch, 1);
    Restart();
    const std::vector<RollUpHistory::Point> after = history_->Read(epoch, 1);
    ASSERT_GE(after.size(), before.size() - 6);
    EXPECT_LE(before.back().at - after.back().at, absl::Minutes(1));
    EXPECT_NEAR(static_cast<double>(StepsOf(epoch, 1)), static_cast<double>(steps), 60);
    EXPECT_EQ(after[after.size() / 2].value.waited, 300);
    for (size_t i = 1; i < after.size(); ++i) ASSERT_GT(after[i].at, after[i - 1].at);
    if (life % 3 == 0) now_ += absl::Minutes(3);
    if (life % 4 == 0) {
      Begin(++epoch, {0, 1});
    } else {
      Begin(epoch);
    }
  }
}

TEST_F(RollUpHistoryTest, AfterARestartCoarsePointsAreWholeAgain) {
  Begin(1);
  // In the middle of a minute, of ten and of an hour.
  PassAll(2223, {100, 300});
  Restart();
  now_ += absl::Seconds(50);
  Begin(1);
  PassAll(3 * 8640, {100, 300});
  for (const RollUpHistory::Point& point : history_->Read(1, 1)) {
    if (point.at < kStart || point.width < absl::Minutes(10)) continue;
    EXPECT_GE(point.value.steps, 10 * (point.width / absl::Seconds(10)) - 120) << point.at;
    EXPECT_LE(point.value.steps, 10 * (point.width / absl::Seconds(10))) << point.at;
  }
}

TEST_F(RollUpHistoryTest, AClockThatWasSetBackDoesNotDisturbTheOrder) {
  Begin(1);
  PassAll(100, {100, 300});
  Restart();
  now_ -= absl::Hours(5);
  Begin(1);
  PassAll(12, {100, 300});
  const std::vector<RollUpHistory::Point> points = history_->Read(1, 0);
  EXPECT_EQ(points.size(), 96u + 12u);
  EXPECT_EQ(history_->TimeOf(history_->NumberAt(now_)), now_);
}

TEST_F(RollUpHistoryTest, ARestartWithinTenSecondsMovesNothing) {
  Begin(1);
  PassAll(12, {100, 300});
  history_->Add(history_->NumberAt(now_), {Ten(100), Ten(300)});
  history_->Hasten();
  Keep();
  Restart();
  now_ += absl::Seconds(2);
  Begin(1);
  now_ += absl::Seconds(28);
  EXPECT_EQ(history_->TimeOf(history_->NumberAt(now_)), now_);
}

TEST_F(RollUpHistoryTest, ALargeJobHasLessOfEachLevel) {
  const size_t ranks = 10'240;
  Begin(1);
  const std::vector<uint16_t> waited(ranks, 100);
  PassAll(2000, waited);
  EXPECT_LE(history_->bytes(), RollUpHistory::kMostBytes);
  EXPECT_LE(StoredBytes(), RollUpHistory::kMostBytes + (1 << 20));
  const std::vector<RollUpHistory::Point> points = history_->Read(1, 10'000);
  EXPECT_GE(now_ - points.front().at, absl::Hours(5));
  EXPECT_GE(points[points.size() - 90].width, absl::Seconds(10));
  EXPECT_EQ(points[points.size() - 90].at, now_ - absl::Seconds(900)) << "a quarter of an hour in steps of ten seconds";
  // 16 bytes for each rank and point.
  EXPECT_LT(static_cast<double>(written_), 2000 * 16.0 * ranks * 1.25);
}

TEST_F(RollUpHistoryTest, WithoutMemoryTheOldestGoes) {
  MemoryBudget budget(100 << 10);
  Restart(&budget);
  Begin(1);
  PassAll(8640, std::vector<uint16_t>(20, 100));
  EXPECT_LE(history_->bytes(), 100 << 10);
  EXPECT_EQ(budget.left(), (100 << 10) - history_->bytes());
  const std::vector<RollUpHistory::Point> points = history_->Read(1, 19);
  EXPECT_EQ(points.back().at, now_ - absl::Seconds(10));
  EXPECT_GE(now_ - points.front().at, absl::Hours(4));
  history_.reset();
  EXPECT_EQ(budget.left(), 100 << 10);
  // None at all.
  MemoryBudget nothing(10);
  Restart(&nothing);
  Begin(1);
  PassAll(10, {100, 300});
  EXPECT_TRUE(history_->Read(1, 0).empty());
  history_.reset();
}

TEST_F(RollUpHistoryTest, EpochsOfOnePointTakeNoMoreThanTheyAreCountedFor) {
  saves_ = false;
  const size_t before = mallinfo2().uordblks;
  const std::vector<uint16_t> ranks(20, 100);
  for (uint64_t epoch = 1; epoch <= 2000; ++epoch) {
    Begin(epoch);
    Pass(ranks);
  }
  // The C library has some bytes of each piece for itself.
  EXPECT_LE(mallinfo2().uordblks - before, static_cast<size_t>(history_->bytes()) * 5 / 4 + (64 << 10));
  while (history_->bytes() > 0) history_->Clear();
}

TEST_F(RollUpHistoryTest, OfManyEpochsTheLatestAreFollowed) {
  const auto links = [this] {
    return std::count_if(rows_.begin(), rows_.end(),
                         [](const auto& row) { return absl::StrContains(row.first, "links"); });
  };
  constexpr uint64_t kLatest = RollUpHistory::kMostLinks + 100;
  for (uint64_t epoch = 1; epoch <= kLatest; ++epoch) {
    Begin(epoch, {0, 1});
    Keep();
  }
  EXPECT_EQ(links(), static_cast<int64_t>(RollUpHistory::kMostLinks));
  EXPECT_EQ(history_->bytes(), static_cast<int64_t>(RollUpHistory::kMostLinks * 2 * sizeof(int32_t)));
  Restart();
  EXPECT_EQ(history_->bytes(), static_cast<int64_t>(RollUpHistory::kMostLinks * 2 * sizeof(int32_t)));
  for (uint64_t epoch = kLatest + 1; epoch <= kLatest + 500; ++epoch) {
    Begin(epoch, std::vector<int32_t>(4096, 0));
    Keep();
  }
  EXPECT_LE(history_->bytes(), RollUpHistory::kMostLinkBytes);
  EXPECT_LE(links(), RollUpHistory::kMostLinkBytes / 4096 / 4);
}

TEST_F(RollUpHistoryTest, LinksTakeFromTheBudget) {
  MemoryBudget budget(100);
  history_ = std::make_unique<RollUpHistory>(kRows, &budget);
  Begin(1, {0, 1, 2, 3});
  EXPECT_EQ(budget.left(), 84);
  Begin(2, std::vector<int32_t>(30, 0));
  EXPECT_EQ(budget.left(), 84) << "without room the epoch begins anew";
  history_->Clear();
  EXPECT_EQ(budget.left(), 100);
  history_.reset();
}

TEST_F(RollUpHistoryTest, WhatIsKeptIsWrittenOnce) {
  Begin(1);
  PassAll(360, {100, 300});
  const size_t rows = rows_.size();
  EXPECT_LT(rows, 60u + 6 + 1 + 1);
  // Ten seconds, and a quarter as much for the coarser levels and the heads of rows.
  EXPECT_LT(written_, 360u * 3 * 16 * 2);
  EXPECT_FALSE(history_->IsDue());
  StoreBatch batch;
  EXPECT_TRUE(history_->Save(&batch));
  EXPECT_TRUE(batch.empty());
}

TEST_F(RollUpHistoryTest, AnEndWritesTheLastSeconds) {
  Begin(1);
  PassAll(4, {100, 300});
  EXPECT_TRUE(rows_.empty());
  history_->Hasten();
  Keep();
  Restart();
  EXPECT_EQ(history_->Read(1, 1).size(), 4u);
}

TEST_F(RollUpHistoryTest, ClearDeletesAllRows) {
  Begin(1);
  PassAll(1000, {100, 300});
  Begin(2, {1, -1});
  PassAll(1000, {100, 300});
  EXPECT_GT(rows_.size(), 50u);
  history_->Clear();
  Keep();
  EXPECT_TRUE(rows_.empty());
  EXPECT_EQ(history_->bytes(), 0);
  PassAll(12, {100, 300});
  EXPECT_EQ(history_->Read(2, 0).size(), 12u);
}

TEST_F(RollUpHistoryTest, RowsThatFoundNoMemoryStayAndAreClearedWithTheOthers) {
  Begin(1);
  PassAll(400, {100, 300});
  const size_t rows = rows_.size();
  MemoryBudget budget(2000);
  Restart(&budget);
  EXPECT_EQ(rows_.size(), rows);
  EXPECT_LT(history_->Read(1, 0).size(), 50u);
  history_->Clear();
  Keep();
  EXPECT_TRUE(rows_.empty());
  history_.reset();
}

TEST_F(RollUpHistoryTest, ARowThatMakesNoSenseIsAnErrorAndGoesWithTheNext) {
  Begin(1);
  PassAll(12, {100, 300});
  RollUpHistory other(kRows, nullptr);
  EXPECT_FALSE(other.Load({absl::StrCat(kRows, "x"), "nonsense"}).ok());
  other.Hasten();
  StoreBatch batch;
  EXPECT_TRUE(other.Save(&batch));
  EXPECT_EQ(batch.deletes, std::vector<std::string>{absl::StrCat(kRows, "x")});
  const std::pair<std::string, std::string> good = *rows_.begin();
  for (const size_t size : {0u, 1u, 15u, 16u, 17u, 30u}) {
    RollUpHistory fresh(kRows, nullptr);
    EXPECT_EQ(fresh.Load({good.first, good.second.substr(0, size)}).code(), absl::StatusCode::kDataLoss) << size;
  }
  for (const char* key : {"7/000000000001/000000000001", "x", "0/1", "0/a/1", "links/x", "-1/1/1", "0/1/1/1"}) {
    RollUpHistory fresh(kRows, nullptr);
    EXPECT_FALSE(fresh.Load({absl::StrCat(kRows, key), good.second}).ok()) << key;
  }
  std::string huge = good.second;
  huge[4] = huge[5] = huge[6] = huge[7] = '\x7f';
  RollUpHistory fresh(kRows, nullptr);
  EXPECT_FALSE(fresh.Load({good.first, huge}).ok());
}

}  // namespace
}  // namespace farandole
