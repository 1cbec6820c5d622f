#include "server/logged/logged_curve.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(LoggedCurveTest, ValuesOfOneStepAreAveraged) {
  LoggedCurve curve;
  for (const double value : {1.0, 5.0, 3.0}) EXPECT_TRUE(curve.Add(7, value, 1, 100));
  ASSERT_EQ(curve.points().size(), 1u);
  const LoggedPoint& point = curve.points()[0];
  EXPECT_DOUBLE_EQ(point.mean, 3);
  EXPECT_DOUBLE_EQ(point.least, 1);
  EXPECT_DOUBLE_EQ(point.greatest, 5);
  EXPECT_EQ(point.count, 3u);
}

TEST(LoggedCurveTest, StepsComeInAnyOrder) {
  LoggedCurve curve;
  for (const int64_t step : {3, 1, 2, -5}) curve.Add(step, static_cast<double>(step), 1, 0);
  ASSERT_EQ(curve.points().size(), 4u);
  EXPECT_EQ(curve.points()[0].first, -5);
  EXPECT_EQ(curve.points()[1].first, 1);
  EXPECT_EQ(curve.points()[3].first, 3);
}

TEST(LoggedCurveTest, ALaterEpochTakesItsStepsAndThoseBehindThemOver) {
  LoggedCurve curve;
  for (int64_t step = 0; step < 10; ++step) curve.Add(step, 1, 1, 0);
  EXPECT_TRUE(curve.Add(6, 2, 2, 0));
  EXPECT_TRUE(curve.Add(6, 4, 2, 0));
  // Its ranks' first points come in any order, and those of the old epoch late.
  EXPECT_TRUE(curve.Add(5, 2, 2, 0));
  EXPECT_FALSE(curve.Add(7, 1, 1, 0));
  EXPECT_TRUE(curve.Add(4, 3, 1, 0));
  ASSERT_EQ(curve.points().size(), 7u);
  EXPECT_DOUBLE_EQ(curve.points()[4].mean, 2);
  EXPECT_EQ(curve.points()[4].count, 2u);
  EXPECT_DOUBLE_EQ(curve.points()[6].mean, 3);
  EXPECT_EQ(curve.points()[6].epoch, 2u);
}

TEST(LoggedCurveTest, OldStepsArePutTogetherAndTheLatestStayAsTheyAre) {
  LoggedCurve curve;
  const int64_t steps = 100'000;
  for (int64_t step = 0; step < steps; ++step) curve.Add(step, static_cast<double>(step), 1, step);
  ASSERT_LE(curve.points().size(), LoggedCurve::kMostPoints);
  uint64_t count = 0;
  int64_t next = 0;
  for (const LoggedPoint& point : curve.points()) {
    EXPECT_EQ(point.first, next);
    EXPECT_EQ(point.count, static_cast<uint64_t>(point.last - point.first + 1));
    EXPECT_DOUBLE_EQ(point.mean, static_cast<double>(point.first + point.last) / 2);
    EXPECT_DOUBLE_EQ(point.least, static_cast<double>(point.first));
    EXPECT_DOUBLE_EQ(point.greatest, static_cast<double>(point.last));
    next = point.last + 1;
    count += point.count;
  }
  EXPECT_EQ(count, static_cast<uint64_t>(steps));
  // Not coarser than it has to be.
  EXPECT_GT(curve.points().size(), LoggedCurve::kLatest + LoggedCurve::kLatest / 3);
  for (size_t i = curve.points().size() - LoggedCurve::kLatest; i < curve.points().size(); ++i)
    EXPECT_EQ(curve.points()[i].first, curve.points()[i].last);
}

TEST(LoggedCurveTest, ALateValueOfAnOldStepFindsItsRange) {
  LoggedCurve curve;
  for (int64_t step = 0; step < 10'000; ++step) curve.Add(step, 0, 1, 0);
  const size_t before = curve.points().size();
  EXPECT_TRUE(curve.Add(100, 1, 1, 0));
  EXPECT_EQ(curve.points().size(), before);
  for (const LoggedPoint& point : curve.points()) {
    const bool has_it = point.first <= 100 && 100 <= point.last;
    EXPECT_EQ(point.count, static_cast<uint64_t>(point.last - point.first + 1 + (has_it ? 1 : 0)));
    EXPECT_DOUBLE_EQ(point.greatest, has_it ? 1 : 0);
  }
}

TEST(LoggedCurveTest, StepsFarApartAreBoundedToo) {
  LoggedCurve curve;
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) curve.Add(static_cast<int64_t>(random()), 1, 1, 0);
  curve.Add(std::numeric_limits<int64_t>::max(), 1, 1, 0);
  curve.Add(std::numeric_limits<int64_t>::min(), 1, 1, 0);
  EXPECT_LE(curve.points().size(), LoggedCurve::kMostPoints);
  uint64_t count = 0;
  for (const LoggedPoint& point : curve.points()) count += point.count;
  EXPECT_EQ(count, 5002u);
}

TEST(LoggedCurveTest, ANumberThatIsNoneIsShown) {
  LoggedCurve curve;
  curve.Add(1, std::numeric_limits<double>::quiet_NaN(), 1, 0);
  curve.Add(2, 1, 1, 0);
  EXPECT_TRUE(std::isnan(curve.points()[0].mean));
  EXPECT_DOUBLE_EQ(curve.points()[1].mean, 1);
}

TEST(LoggedCurveTest, WhatWasKeptIsReadAgainAndGoesOn) {
  LoggedCurve curve;
  LoggedCurve twin;
  for (int64_t step = 0; step < 3000; ++step)
    curve.Add(step, 1.0 / static_cast<double>(step + 1), 1 + step / 2000, step);
  for (size_t chunk = 0; chunk < curve.Chunks(); ++chunk) ASSERT_TRUE(twin.Load(curve.ShowChunk(chunk)));
  EXPECT_FALSE(twin.IsDirty());
  for (int64_t step = 2900; step < 6000; ++step) {
    curve.Add(step, 2, 3, step);
    twin.Add(step, 2, 3, step);
  }
  v1::LoggedSeries one, other;
  curve.Show(&one);
  twin.Show(&other);
  EXPECT_EQ(one.SerializeAsString(), other.SerializeAsString());
}

TEST(LoggedCurveTest, OnlyWhatHasChangedIsKeptAnew) {
  LoggedCurve curve;
  for (int64_t step = 0; step < 200; ++step) curve.Add(step, 1, 1, 0);
  curve.MarkKept();
  EXPECT_FALSE(curve.IsDirty());
  curve.Add(200, 1, 1, 0);
  EXPECT_FALSE(curve.IsDirty(0));
  EXPECT_TRUE(curve.IsDirty(200 / LoggedCurve::kChunk));
  curve.Add(3, 1, 1, 0);
  EXPECT_TRUE(curve.IsDirty(0));
  curve.MarkKept();
  curve.Add(50, 1, 2, 0);
  EXPECT_TRUE(curve.IsDirty());
  EXPECT_EQ(curve.Chunks(), 1u);
  EXPECT_EQ(curve.kept_chunks(), 4u);
}

TEST(LoggedCurveTest, RowsThatMakeNoSenseAreRefused) {
  LoggedCurve curve;
  curve.Add(1, 1, 1, 0);
  v1::LoggedRecord record = curve.ShowChunk(0);
  record.mutable_points()->add_mean(3);
  EXPECT_FALSE(LoggedCurve().Load(record));
  record = curve.ShowChunk(0);
  record.set_width(0);
  EXPECT_FALSE(LoggedCurve().Load(record));
  record = curve.ShowChunk(0);
  LoggedCurve twice;
  EXPECT_TRUE(twice.Load(record));
  EXPECT_FALSE(twice.Load(record));
}

}  // namespace
}  // namespace farandole
