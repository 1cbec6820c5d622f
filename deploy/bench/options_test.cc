#include "deploy/bench/options.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace farandole::bench {
namespace {

BenchOptions Parse(const std::string& line) {
  CLI::App app;
  BenchOptions options;
  AddBenchOptions(&app, &options);
  app.parse(line);
  return options;
}

// "allreduce f32 1", "allreduce f32 4", ...
std::vector<std::string> Listed(const std::string& line, int size) {
  std::vector<std::string> words;
  const auto cases = ListCases(Parse(line), size);
  if (!cases.ok()) return {std::string(cases.status().message())};
  for (const Case& each : *cases)
    words.push_back(absl::StrCat(TraitsOf(each.op).name, " ", ShortName(each.dtype), " ", each.count));
  return words;
}

TEST(BenchOptionsTest, SizesGoFromTheSmallestToTheLargest) {
  EXPECT_EQ(Listed("--min 4 --max 1K --factor 16", 2),
            (std::vector<std::string>{"allreduce f32 1", "allreduce f32 16", "allreduce f32 256"}));
  EXPECT_EQ(Listed("--min 64K --max 64K", 2), std::vector<std::string>{"allreduce f32 16384"});
  EXPECT_EQ(Listed("", 2).back(), absl::StrCat("allreduce f32 ", 64 << 20));
}

TEST(BenchOptionsTest, EveryOpIsMeasuredForEveryType) {
  EXPECT_EQ(Listed("--op allgather,barrier,broadcast --dtype f16,i64 --min 64 --max 64", 4),
            (std::vector<std::string>{"allgather f16 8", "allgather i64 2", "barrier u8 0", "broadcast f16 32",
                                      "broadcast i64 8"}));
}

TEST(BenchOptionsTest, EveryRankGetsAsMuchOfWhatIsSharedOut) {
  EXPECT_EQ(
      Listed("--op alltoall,reducescatter,scatter,gather --min 4 --max 64 --factor 16", 3),
      (std::vector<std::string>{"alltoall f32 3", "alltoall f32 15", "reducescatter f32 3", "reducescatter f32 15",
                                "scatter f32 3", "scatter f32 15", "gather f32 1", "gather f32 5"}));
}

TEST(BenchOptionsTest, LessThanAnElementIsOneAndEqualSizesAreThereOnce) {
  EXPECT_EQ(Listed("--op allgather --min 4 --max 16 --factor 2", 4), std::vector<std::string>{"allgather f32 1"});
}

TEST(BenchOptionsTest, WhatThereIsNotIsNamed) {
  EXPECT_EQ(Listed("--op join", 2)[0],
            "--op is 'join', but must be one of allreduce, allgather, broadcast, barrier, alltoall, reducescatter, "
            "gather, scatter");
  EXPECT_EQ(Listed("--dtype f8", 2)[0].rfind("--dtype is 'f8', but must be one of f32, ", 0), 0);
  EXPECT_EQ(Listed("--reduce average", 2)[0], "--reduce is 'average', but must be one of sum, min, max");
  EXPECT_EQ(Listed("--arena --op broadcast", 2)[0], "--arena is for allreduce only, not for --op broadcast");
  EXPECT_EQ(Listed("--min 8 --max 4", 2)[0], "--min 8 must be at least 1 and at most --max 4");
}

}  // namespace
}  // namespace farandole::bench
