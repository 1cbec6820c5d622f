#include "server/job/members/launch_tokens.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

v1::Launch RunOf(const std::string& nonce, const std::string& token_id) {
  v1::Launch run;
  run.set_nonce(nonce);
  run.set_token_id(token_id);
  return run;
}

absl::flat_hash_set<std::string> Nobody() { return {}; }

TEST(LaunchTokensTest, TheRunIsItsTokensAndAWorkerThatOfWhoeverStartedIt) {
  LaunchTokens tokens;
  const v1::Launch run = RunOf("n", "a");
  tokens.NoteWorker(run, "w0", "a", Nobody);
  tokens.NoteWorker(run, "w1", "b", Nobody);
  tokens.NoteWorker(run, "w2", "", Nobody);
  for (const char* worker : {"w0", "w1", "w2", "unknown"}) {
    EXPECT_TRUE(tokens.HasLaunched(run, "a", worker)) << worker;
    EXPECT_TRUE(tokens.HasLaunched(run, "", worker)) << worker << ": an operator's call";
    EXPECT_EQ(tokens.HasLaunched(run, "b", worker), std::string(worker) == "w1");
    EXPECT_FALSE(tokens.HasLaunched(run, "c", worker)) << worker;
  }
  EXPECT_TRUE(tokens.CheckTakesPart("train", run, "a").ok());
  EXPECT_TRUE(tokens.CheckTakesPart("train", run, "b").ok());
  EXPECT_EQ(tokens.CheckTakesPart("train", run, "c").message(),
            "job train was launched with token a, and token c is of a launcher, which may change its own jobs only");
  tokens.BeginRun();
  EXPECT_EQ(tokens.CheckTakesPart("train", run, "b").code(), absl::StatusCode::kPermissionDenied);
}

TEST(LaunchTokensTest, ARunOfAnEarlierVersionWhoseTokenIsNotKnownIsAnyLaunchers) {
  LaunchTokens tokens;
  EXPECT_TRUE(tokens.HasLaunched(RunOf("n", ""), "a", "w0"));
  EXPECT_TRUE(tokens.CheckTakesPart("train", RunOf("n", ""), "a").ok());
}

TEST(LaunchTokensTest, ALaunchTakesPartInOneRun) {
  LaunchTokens tokens;
  tokens.TakePart("n", "b");
  tokens.BeginRun();
  EXPECT_TRUE(tokens.CheckTakesPart("train", RunOf("n", "a"), "b").ok()) << "it came before the first worker";
  EXPECT_FALSE(tokens.HasLaunched(RunOf("n", "a"), "b", "w0"));
  EXPECT_FALSE(tokens.CheckTakesPart("train", RunOf("m", "a"), "b").ok());
  tokens.TakePart("m", "c");
  EXPECT_FALSE(tokens.CheckTakesPart("train", RunOf("n", "a"), "b").ok());
  for (size_t i = 1; i < LaunchTokens::kMostLaunches; ++i) tokens.TakePart("m", absl::StrCat(i));
  tokens.TakePart("m", "d");
  EXPECT_TRUE(tokens.CheckTakesPart("train", RunOf("m", "a"), "c").ok());
  EXPECT_FALSE(tokens.CheckTakesPart("train", RunOf("m", "a"), "d").ok()) << "beyond the bound";
}

TEST(LaunchTokensTest, WorkersThatAreGoneTakeNoRoom) {
  LaunchTokens tokens;
  const v1::Launch run = RunOf("n", "a");
  int asked = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string worker = absl::StrCat("w", i);
    tokens.NoteWorker(run, worker, "b", [&] {
      ++asked;
      return absl::flat_hash_set<std::string>{"w0", worker};
    });
  }
  EXPECT_TRUE(tokens.HasLaunched(run, "b", "w0"));
  EXPECT_TRUE(tokens.HasLaunched(run, "b", "w9999"));
  EXPECT_FALSE(tokens.HasLaunched(run, "b", "w1"));
  EXPECT_GT(asked, 100);
  EXPECT_LT(asked, 200);
}

}  // namespace
}  // namespace farandole
