#include "deploy/bench/measurement.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole::bench {
namespace {

Measurement OfOneMillisecond(OpType op, int size) {
  Measurement measurement;
  measurement.what.op = op;
  measurement.what.count = 250'000;
  measurement.what.tensors = 2;
  measurement.size = size;
  measurement.median = absl::Milliseconds(1);
  return measurement;
}

TEST(MeasurementTest, BusBandwidthIsWhatARankMustMove) {
  // 2 MB of results in 1 ms; of an allgather, 4 times as much.
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kAllreduce, 4).AlgorithmBandwidth(), 2e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kAllreduce, 4).BusBandwidth(), 3e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kAllgather, 4).AlgorithmBandwidth(), 8e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kAllgather, 4).BusBandwidth(), 6e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kBroadcast, 4).BusBandwidth(), 2e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kBarrier, 4).BusBandwidth(), 0);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kGather, 4).AlgorithmBandwidth(), 8e9);
  EXPECT_DOUBLE_EQ(OfOneMillisecond(OpType::kGather, 4).BusBandwidth(), 6e9);
  for (const OpType op : {OpType::kReducescatter, OpType::kAlltoall, OpType::kScatter}) {
    EXPECT_DOUBLE_EQ(OfOneMillisecond(op, 4).AlgorithmBandwidth(), 2e9);
    EXPECT_DOUBLE_EQ(OfOneMillisecond(op, 4).BusBandwidth(), 1.5e9);
  }
}

TEST(MeasurementTest, QuantilesAreOfTheSortedSamples) {
  std::vector<double> samples;
  for (int i = 200; i > 0; --i) samples.push_back(i);
  const Quantiles quantiles = QuantilesOf(samples);
  EXPECT_EQ(quantiles.median, 100.5);
  EXPECT_EQ(quantiles.p99, 198);
  EXPECT_EQ(quantiles.least, 1);
}

TEST(MeasurementTest, OneSampleIsAllQuantiles) {
  const Quantiles quantiles = QuantilesOf({3});
  EXPECT_EQ(quantiles.median, 3);
  EXPECT_EQ(quantiles.p99, 3);
  EXPECT_EQ(quantiles.least, 3);
}

}  // namespace
}  // namespace farandole::bench
