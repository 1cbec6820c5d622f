#include "server/logged/logged_values.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::LoggedPoints Points(uint64_t first, const std::string& name, const std::vector<std::pair<int64_t, double>>& values,
                        bool by_rank = false, uint64_t epoch = 1) {
  v1::LoggedPoints points;
  points.set_first(first);
  points.set_epoch(epoch);
  points.add_names(name);
  points.add_by_rank(by_rank);
  int64_t last = 0;
  for (const auto& [step, value] : values) {
    points.add_name(0);
    points.add_step(step - last);
    points.add_value(value);
    points.add_age_ms(0);
    last = step;
  }
  return points;
}

class LoggedValuesTest : public testing::Test {
 protected:
  std::unique_ptr<LoggedValues> Make() { return std::make_unique<LoggedValues>("t", "j", budgets_); }
  // Commits what has changed, as often as it takes.
  void Save(LoggedValues* values) {
    for (bool is_all = false; !is_all;) {
      StoreBatch batch;
      is_all = values->Save(&batch);
      EXPECT_LE(batch.puts.size() + batch.deletes.size(), kMaxBatchOperations - 20);
      for (const std::string& key : batch.deletes) rows_.erase(key);
      for (const StoreRow& row : batch.puts) rows_[row.key] = row.value;
    }
  }
  std::unique_ptr<LoggedValues> Restored() {
    std::unique_ptr<LoggedValues> values = Make();
    for (const auto& [key, value] : rows_) EXPECT_TRUE(values->Load({key, value}).ok()) << key;
    return values;
  }

  std::shared_ptr<TenantBudgets> budgets_ = std::make_shared<TenantBudgets>(6 << 20);
  std::map<std::string, std::string> rows_;
};

TEST_F(LoggedValuesTest, RanksAreAveragedOrKeptOneByOne) {
  const auto values = Make();
  values->Take(0, 2, 1, Points(1, "loss", {{5, 1.0}}), 1000);
  values->Take(1, 2, 1, Points(1, "loss", {{5, 3.0}}), 1000);
  for (uint32_t rank = 0; rank < 2; ++rank) values->Take(rank, 2, 1, Points(2, "time", {{5, rank + 1.0}}, true), 1000);
  const v1::ListLoggedResponse listed = values->List({});
  ASSERT_EQ(listed.series_size(), 3);
  EXPECT_EQ(listed.series(0).name(), "loss");
  EXPECT_FALSE(listed.series(0).has_rank());
  EXPECT_THAT(listed.series(0).mean(), ElementsAre(2.0));
  EXPECT_THAT(listed.series(0).count(), ElementsAre(2u));
  EXPECT_EQ(listed.series(2).rank(), 1u);
  EXPECT_THAT(listed.series(2).mean(), ElementsAre(2.0));
  EXPECT_EQ(values->List({"time"}).series_size(), 2);
}

TEST_F(LoggedValuesTest, PointsThatAreSentAgainCountOnce) {
  auto values = Make();
  values->Take(0, 1, 1, Points(1, "loss", {{1, 1.0}, {2, 2.0}}), 1000);
  Save(values.get());
  values = Restored();
  values->Take(0, 1, 1, Points(1, "loss", {{1, 1.0}, {2, 2.0}, {3, 3.0}}), 1000);
  const v1::ListLoggedResponse listed = values->List({});
  EXPECT_THAT(listed.series(0).count(), ElementsAre(1u, 1u, 1u));
  EXPECT_THAT(listed.series(0).mean(), ElementsAre(1.0, 2.0, 3.0));
}

TEST_F(LoggedValuesTest, ALaterEpochWins) {
  const auto values = Make();
  values->Take(0, 1, 1, Points(1, "loss", {{1, 1.0}, {2, 1.0}, {3, 1.0}}), 1000);
  values->Take(0, 1, 2, Points(4, "loss", {{2, 5.0}}, false, 2), 1000);
  // The process has logged this before, and sends it only now.
  values->Take(0, 1, 2, Points(5, "loss", {{3, 1.0}}, false, 1), 1000);
  EXPECT_THAT(values->List({}).series(0).mean(), ElementsAre(1.0, 5.0));
}

TEST_F(LoggedValuesTest, RestartsFindAllAgain) {
  auto values = Make();
  uint64_t number = 1;
  for (int64_t step = 0; step < 2000; ++step, ++number)
    values->Take(0, 1, 1, Points(number, absl::StrCat("m", step % 3), {{step, 0.5}}, step % 2 == 0), 1000);
  v1::LoggedPoints lossy = Points(number, "m0", {{2000, 1}});
  lossy.set_dropped(7);
  values->Take(0, 1, 1, lossy, 1000);
  Save(values.get());
  EXPECT_FALSE(values->IsDirty());
  EXPECT_EQ(values->List({}).SerializeAsString(), Restored()->List({}).SerializeAsString());
  EXPECT_EQ(Restored()->List({}).dropped(), 7u);
  // Nothing is left over when a curve shrinks.
  values->Take(0, 1, 2, Points(1, "m0", {{0, 1}}, false, 2), 1000);
  Save(values.get());
  EXPECT_EQ(values->List({}).SerializeAsString(), Restored()->List({}).SerializeAsString());
}

TEST_F(LoggedValuesTest, ManyCurvesTakeSeveralCommits) {
  const auto values = Make();
  for (uint32_t rank = 0; rank < 300; ++rank) values->Take(rank, 300, 1, Points(1, "x", {{1, 1.0}}, true), 1000);
  StoreBatch first;
  EXPECT_FALSE(values->Save(&first));
  Save(values.get());
  for (const StoreRow& row : first.puts) rows_[row.key] = row.value;
  EXPECT_EQ(Restored()->List({}).series_size(), 300);
}

TEST_F(LoggedValuesTest, WhatIsBeyondAJobsBoundIsRefusedInASentence) {
  const auto values = Make();
  const uint32_t size = 400;
  uint64_t number = 1;
  std::string news;
  for (int64_t step = 0; step < 512; ++step, ++number) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      values->Take(rank, size, 1, Points(number, "x", {{step, 1.0}}, true), 1000);
      if (news.empty()) news = values->TakeNews();
    }
  }
  EXPECT_THAT(news, HasSubstr("job j has logged 4096 KiB, which is the most that is kept: points of 'x' of rank"));
  const v1::ListLoggedResponse listed = values->List({});
  EXPECT_GT(listed.refused(), 0u);
  EXPECT_EQ(listed.bound(), news);
  EXPECT_EQ(values->TakeNews(), "");
  // A client takes 4 MiB.
  EXPECT_LT(listed.ByteSizeLong(), size_t{4} << 20);
}

TEST_F(LoggedValuesTest, ATenantsJobsShareABoundAndGiveItBack) {
  const auto fill = [](LoggedValues* values) {
    uint64_t number = 1;
    for (int64_t step = 0; step < 400; ++step, ++number) {
      for (uint32_t rank = 0; rank < 200; ++rank)
        values->Take(rank, 200, 1, Points(number, "x", {{step, 1.0}}, true), 1000);
    }
    return values->TakeNews();
  };
  auto one = Make(), other = Make();
  fill(one.get());
  EXPECT_THAT(fill(other.get()), HasSubstr("tenant t in all its jobs has logged 6144 KiB"));
  one.reset();
  other.reset();
  EXPECT_TRUE(budgets_->Take("t", budgets_->bytes()));
}

TEST_F(LoggedValuesTest, RowsThatAreNoneAreNamed) {
  EXPECT_THAT(Make()->Load({"logged/t/j/00001/00", "\xff"}).ToString(), HasSubstr("logged/t/j/00001/00"));
  EXPECT_FALSE(Make()->Load({"logged/t/j/x", ""}).ok());
  EXPECT_FALSE(Make()->Load({"logged/t/j/stands", "\xff"}).ok());
}

}  // namespace
}  // namespace farandole
