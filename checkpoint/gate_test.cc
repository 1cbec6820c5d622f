#include "checkpoint/gate.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr char kWriter[] = "0123456789abcdef0123456789abcdef";
constexpr char kOther[] = "fedcba9876543210fedcba9876543210";

// A gate whose rows are kept as a store would, so that it can be made anew from them.
class CheckpointGateTest : public testing::Test {
 protected:
  absl::StatusOr<uint64_t> Begin(int64_t step, const std::string& key, const std::string& name = "",
                                 const std::string& who = kWriter) {
    v1::BeginCheckpointRequest request;
    request.set_incarnation(who);
    request.set_epoch(epoch_);
    request.set_name(name);
    request.set_step(step);
    request.set_idempotency_key(key);
    request.set_replace(replace_);
    request.set_greatest_token_on_disk(greatest_token_on_disk_);
    CheckpointGate::Writes writes;
    const auto response = gate_.Begin(request, present_, &writes);
    Keep(writes);
    if (!response.ok()) return response.status();
    return response->token();
  }

  v1::CommitCheckpointRequest CommitRequest(uint64_t token, int64_t step, const std::string& name = "") {
    v1::CommitCheckpointRequest request;
    request.set_incarnation(kWriter);
    request.mutable_checkpoint()->set_name(name);
    request.mutable_checkpoint()->set_step(step);
    request.mutable_checkpoint()->set_token(token);
    request.mutable_checkpoint()->set_path(absl::StrCat("/ckpt/s", step, ".t", token, ".bin"));
    request.mutable_checkpoint()->set_sha256(std::string(32, 'h'));
    return request;
  }

  absl::Status Commit(const v1::CommitCheckpointRequest& request) {
    CheckpointGate::Writes writes;
    const auto response = gate_.Commit(request, present_, now_, &writes);
    EXPECT_TRUE(response.ok() || (writes.puts.empty() && writes.deletes.empty())) << "a refused commit writes nothing";
    Keep(writes);
    return response.status();
  }

  // The committed path, or "".
  absl::StatusOr<std::string> GiveUp(v1::CommitCheckpointRequest request) {
    request.set_give_up(true);
    CheckpointGate::Writes writes;
    const auto response = gate_.Commit(request, present_, now_, &writes);
    Keep(writes);
    if (!response.ok()) return response.status();
    EXPECT_EQ(response->has_checkpoint(), !response->checkpoint().path().empty());
    return response->checkpoint().path();
  }

  absl::StatusOr<v1::Checkpoint> Find(int64_t step, const std::string& name = "") {
    v1::FindCheckpointRequest request;
    request.set_step(step);
    request.set_name(name);
    const auto response = gate_.Find(request);
    if (!response.ok()) return response.status();
    return response->checkpoint();
  }

  void Keep(const CheckpointGate::Writes& writes) {
    for (const std::string& key : writes.deletes) EXPECT_EQ(rows_.erase(key), 1u) << key;
    for (const auto& [key, value] : writes.puts) rows_[key] = value;
  }

  void Restart() {
    gate_ = CheckpointGate("acme", "mnist");
    for (const auto& [key, value] : rows_) ASSERT_TRUE(gate_.Load(key, value).ok());
  }

  void FormEpoch(uint64_t epoch, const std::string& writer) {
    epoch_ = epoch;
    present_ = {epoch, true, writer};
  }

  uint64_t epoch_ = 1;
  bool replace_ = false;
  uint64_t greatest_token_on_disk_ = 0;
  CheckpointGate::Present present_ = {1, true, kWriter};
  CheckpointGate gate_ = CheckpointGate("acme", "mnist");
  absl::Time now_ = absl::FromUnixMillis(1'000'000);
  std::map<std::string, std::string> rows_;
};

TEST_F(CheckpointGateTest, ACommittedCheckpointIsInTheCatalogue) {
  EXPECT_EQ(Begin(100, "k").value(), 1u);
  EXPECT_EQ(Find(-1).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Commit(CommitRequest(1, 100)).ok());
  const v1::Checkpoint found = Find(-1).value();
  EXPECT_EQ(found.name(), "checkpoint");
  EXPECT_EQ(found.step(), 100);
  EXPECT_EQ(found.token(), 1u);
  EXPECT_EQ(found.epoch(), 1u);
  EXPECT_EQ(found.committed_unix_ms(), 1'000'000);
  EXPECT_EQ(rows_.size(), 1u);
  EXPECT_EQ(rows_.begin()->first, "checkpoint/acme/mnist/checkpoint/00000000000000000100");
}

TEST_F(CheckpointGateTest, TheSameKeyIsGivenTheSameToken) {
  EXPECT_EQ(Begin(100, "k").value(), 1u);
  EXPECT_EQ(Begin(100, "k").value(), 1u);
  Restart();
  EXPECT_EQ(Begin(100, "k").value(), 1u);
  EXPECT_EQ(Begin(100, "other").value(), 2u);
  EXPECT_EQ(Begin(101, "other").status().message(),
            "idempotency_key was used for step 100 before, and now for step 101");
}

TEST_F(CheckpointGateTest, ALaterTokenFencesTheEarlierWriterOfThatNameOnly) {
  EXPECT_EQ(Begin(100, "a").value(), 1u);
  EXPECT_EQ(Begin(100, "b", "best").value(), 2u);
  EXPECT_EQ(Begin(100, "c").value(), 3u);
  const absl::Status fenced = Commit(CommitRequest(1, 100));
  EXPECT_EQ(fenced.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(fenced.message(), "token 1 is not the latest granted for checkpoint: that is token 3");
  EXPECT_TRUE(Commit(CommitRequest(2, 100, "best")).ok());
  EXPECT_TRUE(Commit(CommitRequest(3, 100)).ok());
  // Fenced stays fenced when the newer one has been committed.
  EXPECT_EQ(Commit(CommitRequest(1, 100)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(gate_.List().checkpoints_size(), 2);
}

TEST_F(CheckpointGateTest, ATokenThatIsGivenUpIsNeverCommittedAndOneThatIsCommittedIsNotGivenUp) {
  EXPECT_EQ(Begin(100, "a").value(), 1u);
  EXPECT_EQ(GiveUp(CommitRequest(1, 100)).value(), "");
  EXPECT_TRUE(rows_.empty());
  EXPECT_EQ(GiveUp(CommitRequest(1, 100)).value(), "") << "again";
  EXPECT_EQ(Commit(CommitRequest(1, 100)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Begin(100, "b").value(), 2u);
  ASSERT_TRUE(Commit(CommitRequest(2, 100)).ok());
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(GiveUp(CommitRequest(2, 100)).value(), "/ckpt/s100.t2.bin");
    EXPECT_EQ(gate_.List().checkpoints_size(), 1);
    Restart();
    gate_.SkipTokens(2);
  }
  // Also when the epoch has ended meanwhile; and a place that another writer has taken stays that writer's.
  FormEpoch(2, kOther);
  EXPECT_EQ(GiveUp(CommitRequest(2, 100)).value(), "/ckpt/s100.t2.bin");
  replace_ = true;
  EXPECT_EQ(Begin(100, "c", "", kOther).value(), 3u);
  v1::CommitCheckpointRequest newer = CommitRequest(3, 100);
  newer.set_incarnation(kOther);
  EXPECT_EQ(GiveUp(CommitRequest(3, 100)).status().code(), absl::StatusCode::kPermissionDenied) << "it is another's";
  ASSERT_TRUE(Commit(newer).ok());
  EXPECT_EQ(GiveUp(CommitRequest(2, 100)).value(), "");
  EXPECT_EQ(gate_.List().checkpoints_size(), 1);
  EXPECT_EQ(GiveUp(CommitRequest(9, 100)).status().code(), absl::StatusCode::kNotFound)
      << "a catalogue that has never granted it knows nothing of it";
}

TEST_F(CheckpointGateTest, TokensGrowOverRestarts) {
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t token = Begin(i, absl::StrCat("k", i)).value();
    EXPECT_GT(token, last);
    last = token;
    if (i % 3 == 0) {
      ASSERT_TRUE(Commit(CommitRequest(token, i)).ok());
    }
    if (i % 2 == 0) Restart();
  }
}

TEST_F(CheckpointGateTest, ATokenIsAboveThoseOnDiskOfWhichTheCatalogueHasLostTheMemory) {
  greatest_token_on_disk_ = 41;
  EXPECT_EQ(Begin(100, "k").value(), 42u);
  EXPECT_EQ(Begin(100, "k").value(), 42u);
  greatest_token_on_disk_ = 7;
  EXPECT_EQ(Begin(101, "l").value(), 43u);
  Restart();
  EXPECT_EQ(Begin(102, "m").value(), 44u);
  greatest_token_on_disk_ = (uint64_t{1} << 62) + 1;
  EXPECT_EQ(Begin(103, "n").status().message(),
            "greatest_token_on_disk is 4611686018427387905; it must be at most 4611686018427387904");
}

TEST_F(CheckpointGateTest, CommitIsIdempotentByToken) {
  ASSERT_TRUE(Begin(100, "k").ok());
  ASSERT_TRUE(Commit(CommitRequest(1, 100)).ok());
  now_ += absl::Hours(1);
  CheckpointGate::Writes writes;
  const auto again = gate_.Commit(CommitRequest(1, 100), present_, now_, &writes);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->checkpoint().committed_unix_ms(), 1'000'000);
  EXPECT_TRUE(writes.puts.empty());
  v1::CommitCheckpointRequest other = CommitRequest(1, 100);
  other.mutable_checkpoint()->set_path("/ckpt/elsewhere.t1.bin");
  EXPECT_EQ(Commit(other).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointGateTest, OnlyRankZeroOfTheRunningEpochMayWrite) {
  EXPECT_EQ(Begin(1, "k", "", kOther).status().code(), absl::StatusCode::kPermissionDenied);
  epoch_ = 2;
  EXPECT_EQ(Begin(1, "k").status().code(), absl::StatusCode::kAborted);
  epoch_ = 1;
  present_.is_running = false;
  EXPECT_EQ(Begin(1, "k").status().message(), "epoch 1 has ended");
  EXPECT_EQ(gate_.last_token(), 0u);
}

TEST_F(CheckpointGateTest, AnExistingStepIsNotWrittenAgain) {
  ASSERT_TRUE(Begin(100, "k").ok());
  ASSERT_TRUE(Commit(CommitRequest(1, 100)).ok());
  Restart();
  const absl::Status status = Begin(100, "k2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), "checkpoint at step 100 exists: /ckpt/s100.t1.bin");
}

TEST_F(CheckpointGateTest, AReplacementTakesThePlaceWhenItIsCommitted) {
  ASSERT_TRUE(Begin(100, "k").ok());
  ASSERT_TRUE(Commit(CommitRequest(1, 100)).ok());
  replace_ = true;
  ASSERT_TRUE(Begin(100, "k2").ok());
  EXPECT_EQ(Find(100)->token(), 1u);
  CheckpointGate::Writes writes;
  const auto response = gate_.Commit(CommitRequest(2, 100), present_, now_, &writes);
  ASSERT_TRUE(response.ok()) << response.status();
  Keep(writes);
  EXPECT_EQ(response->replaced_path(), "/ckpt/s100.t1.bin");
  Restart();
  EXPECT_EQ(Find(100)->token(), 2u);
  EXPECT_EQ(gate_.List().checkpoints_size(), 1);
}

TEST_F(CheckpointGateTest, AWriterOfAnEndedEpochCommitsUntilTheNextEpochForms) {
  ASSERT_TRUE(Begin(100, "k").ok());
  ASSERT_TRUE(Begin(100, "k2", "best").ok());
  present_.is_running = false;
  EXPECT_TRUE(Commit(CommitRequest(1, 100)).ok());
  FormEpoch(2, kOther);
  EXPECT_EQ(Commit(CommitRequest(2, 100, "best")).message(),
            "token 2 was granted in epoch 1, and epoch 2 has been formed since");
}

TEST_F(CheckpointGateTest, ACommitMustBeWhatWasGranted) {
  ASSERT_TRUE(Begin(100, "k").ok());
  EXPECT_EQ(Commit(CommitRequest(0, 100)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Commit(CommitRequest(2, 100)).message(), "token 2 was never granted; the last one is 1");
  EXPECT_EQ(Commit(CommitRequest(1, 200)).message(),
            "token 1 was granted for step 100, and step 200 is committed with it");
  EXPECT_EQ(Commit(CommitRequest(1, 100, "best")).code(), absl::StatusCode::kAborted);
  v1::CommitCheckpointRequest request = CommitRequest(1, 100);
  request.set_incarnation(kOther);
  EXPECT_EQ(Commit(request).code(), absl::StatusCode::kPermissionDenied);
  for (const char* path : {"", "relative.t1.bin", "/dir.t1./file.bin", "/ckpt/file.t11.bin"}) {
    request = CommitRequest(1, 100);
    request.mutable_checkpoint()->set_path(path);
    EXPECT_EQ(Commit(request).code(), absl::StatusCode::kInvalidArgument) << path;
  }
  request = CommitRequest(1, 100);
  request.mutable_checkpoint()->set_sha256("short");
  EXPECT_EQ(Commit(request).message(), "sha256 has 5 bytes; it must have 32");
  EXPECT_TRUE(Commit(CommitRequest(1, 100)).ok()) << "a refused commit does not use the token up";
}

TEST_F(CheckpointGateTest, FieldsHaveBounds) {
  EXPECT_EQ(Begin(-1, "k").status().message(), "step is -1; it must be at least 0");
  EXPECT_EQ(Begin(1, "").status().message(), "idempotency_key has 0 bytes; it must have 1 to 64");
  EXPECT_EQ(Begin(1, std::string(65, 'k')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Begin(1, "k", std::string(257, 'n')).status().message(), "name has 257 bytes; it must have 1 to 256");
  EXPECT_EQ(Find(-2).status().message(), "step is -2; it must be at least -1");
}

TEST_F(CheckpointGateTest, FindsTheNewestByCommitAndByStep) {
  const std::vector<int64_t> steps = {300, 100, 200};
  for (const int64_t step : steps) {
    const uint64_t token = Begin(step, absl::StrCat(step)).value();
    // The clock is set back between the commits.
    now_ -= absl::Seconds(10);
    ASSERT_TRUE(Commit(CommitRequest(token, step)).ok());
  }
  for (int life = 0; life < 2; ++life, Restart()) {
    EXPECT_EQ(Find(-1)->step(), 200);
    EXPECT_EQ(Find(300)->step(), 300);
    EXPECT_EQ(Find(-1, "best").status().message(), "the job has no checkpoint best");
    const v1::ListCheckpointsResponse list = gate_.List();
    ASSERT_EQ(list.checkpoints_size(), 3);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(list.checkpoints(i).step(), steps[i]);
  }
}

TEST_F(CheckpointGateTest, TheNumberOfOpenGrantsIsBounded) {
  for (size_t i = 0; i < CheckpointGate::kMostGrants; ++i) ASSERT_TRUE(Begin(1, "k", absl::StrCat("n", i)).ok());
  EXPECT_EQ(Begin(1, "k", "one more").status().code(), absl::StatusCode::kResourceExhausted);
  // Grants of an earlier epoch make room.
  FormEpoch(2, kWriter);
  EXPECT_TRUE(Begin(1, "k", "one more").ok());
  EXPECT_EQ(rows_.size(), CheckpointGate::kMostGrants);
}

TEST_F(CheckpointGateTest, AFullCatalogueForgetsItsOldestCheckpointAndGoesOn) {
  const auto write = [this](const std::string& name, int64_t step) {
    const uint64_t token = Begin(step, "k", name).value();
    v1::CommitCheckpointRequest request = CommitRequest(token, step);
    request.mutable_checkpoint()->set_name(name);
    ASSERT_TRUE(Commit(request).ok());
  };
  write("best", 1);
  for (size_t i = 1; i < CheckpointGate::kMostCheckpoints; ++i) write("epoch", static_cast<int64_t>(i));
  write("epoch", CheckpointGate::kMostCheckpoints);
  write("epoch", CheckpointGate::kMostCheckpoints + 1);
  const v1::ListCheckpointsResponse listed = gate_.List();
  EXPECT_EQ(listed.checkpoints_size(), static_cast<int>(CheckpointGate::kMostCheckpoints));
  EXPECT_EQ(rows_.size(), CheckpointGate::kMostCheckpoints);
  EXPECT_EQ(listed.checkpoints(0).name(), "best") << "the only one of its name";
  EXPECT_EQ(listed.checkpoints(1).step(), 3) << "two were forgotten";
}

TEST_F(CheckpointGateTest, TheBytesOfACatalogueAreBounded) {
  const auto write = [this](int64_t step, size_t length) {
    const uint64_t token = Begin(step, "k").value();
    v1::CommitCheckpointRequest request = CommitRequest(token, step);
    request.mutable_checkpoint()->set_path(absl::StrCat("/", std::string(length, 'd'), "/s.t", token, ".bin"));
    ASSERT_TRUE(Commit(request).ok());
  };
  int64_t step = 0;
  while (step < 5000) write(++step, 4000);
  EXPECT_LE(gate_.bytes(), CheckpointGate::kMostBytes);
  EXPECT_GT(gate_.bytes(), CheckpointGate::kMostBytes - (5 << 10));
  const auto kept = static_cast<size_t>(gate_.List().checkpoints_size());
  EXPECT_EQ(rows_.size(), kept);
  EXPECT_EQ(Find(-1)->step(), step) << "the newest are kept";
  v1::BeginCheckpointRequest next;
  next.set_step(step + 1);
  EXPECT_FALSE(gate_.WouldGrow(next)) << "another one goes";
  // As many as a catalogue takes fit where their paths are as long as usual.
  while (step < 15'000) write(++step, 300);
  EXPECT_EQ(gate_.List().checkpoints_size(), static_cast<int>(CheckpointGate::kMostCheckpoints));
  const size_t before = gate_.bytes();
  Restart();
  EXPECT_EQ(gate_.bytes(), before);
  CheckpointGate::Writes writes;
  while (gate_.List({}, 1).checkpoints_size() > 0)
    ASSERT_TRUE(gate_.Delete("", gate_.List({}, 1).checkpoints(0).step(), &writes).ok());
  EXPECT_EQ(gate_.bytes(), 0u);
}

TEST_F(CheckpointGateTest, AGrantThatIsKnownOrReplacesTakesNoMoreMemory) {
  v1::BeginCheckpointRequest request;
  request.set_step(1);
  request.set_idempotency_key("k");
  EXPECT_TRUE(gate_.WouldGrow(request));
  const uint64_t token = Begin(1, "k").value();
  EXPECT_FALSE(gate_.WouldGrow(request)) << "it was granted";
  ASSERT_TRUE(Commit(CommitRequest(token, 1)).ok());
  EXPECT_FALSE(gate_.WouldGrow(request)) << "it replaces another";
  request.set_step(2);
  EXPECT_TRUE(gate_.WouldGrow(request));
}

TEST_F(CheckpointGateTest, ListsTheNewestFirst) {
  for (int64_t step = 1; step <= 5; ++step)
    ASSERT_TRUE(Commit(CommitRequest(Begin(step, absl::StrCat(step)).value(), step)).ok());
  const auto steps = [](const v1::ListCheckpointsResponse& listed) {
    EXPECT_EQ(listed.found(), 5u);
    std::vector<int64_t> found;
    for (const v1::Checkpoint& one : listed.checkpoints()) found.push_back(one.step());
    return found;
  };
  EXPECT_EQ(steps(gate_.ListNewest(0, 2)), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(steps(gate_.ListNewest(3, 100)), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(steps(gate_.ListNewest(5, 100)), std::vector<int64_t>());
  EXPECT_EQ(steps(gate_.ListNewest(std::numeric_limits<size_t>::max(), 1)), std::vector<int64_t>());
  EXPECT_EQ(steps(gate_.List({}, 1)), std::vector<int64_t>{1});
}

TEST_F(CheckpointGateTest, ListsInPartsWhileCheckpointsAppearAndVanish) {
  const auto write = [this](int64_t step) {
    ASSERT_TRUE(Commit(CommitRequest(Begin(step, absl::StrCat(step)).value(), step)).ok());
  };
  for (int64_t step = 1; step <= 5; ++step) write(step);
  const v1::ListCheckpointsResponse first = gate_.List({}, 2);
  ASSERT_EQ(first.checkpoints_size(), 2);
  CheckpointGate::Writes writes;
  // The last of the page, one of the next, and the newest; the clock goes back, and another one comes.
  for (const int64_t step : {2, 3, 5}) ASSERT_TRUE(gate_.Delete("", step, &writes).ok());
  now_ -= absl::Hours(1);
  write(6);
  const v1::Checkpoint& last = first.checkpoints(1);
  const v1::ListCheckpointsResponse second = gate_.List({last.committed_unix_ms(), last.token()}, 100);
  ASSERT_EQ(second.checkpoints_size(), 2);
  EXPECT_EQ(second.checkpoints(0).step(), 4);
  EXPECT_EQ(second.checkpoints(1).step(), 6);
}

TEST_F(CheckpointGateTest, ADeletedCheckpointIsGoneAndItsNameMayBeWrittenAnew) {
  ASSERT_TRUE(Commit(CommitRequest(Begin(7, "a").value(), 7)).ok());
  const std::string path = Find(7)->path();
  CheckpointGate::Writes writes;
  EXPECT_EQ(gate_.Delete("best", 7, &writes).status().message(), "the job has no checkpoint best at step 7");
  EXPECT_EQ(gate_.Delete("", 8, &writes).status().message(), "the job has no checkpoint checkpoint at step 8");
  EXPECT_EQ(gate_.Delete("", -1, &writes).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(writes.deletes.empty());
  const absl::StatusOr<v1::DeleteCheckpointResponse> deleted = gate_.Delete("", 7, &writes);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->checkpoint().path(), path);
  EXPECT_EQ(writes.deletes.size(), 1u);
  EXPECT_EQ(rows_.count(writes.deletes.at(0)), 1u) << writes.deletes.at(0);
  EXPECT_EQ(Find(7).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(gate_.Delete("", 7, &writes).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Begin(7, "b").value(), 2u) << "no token is given twice";
}

TEST_F(CheckpointGateTest, AGrantOfTheEpochIsACheckpointThatIsBeingWritten) {
  EXPECT_FALSE(gate_.IsWriting(0, 1));
  EXPECT_EQ(Begin(7, "a").value(), 1u);
  EXPECT_TRUE(gate_.IsWriting(0, 1));
  EXPECT_FALSE(gate_.IsWriting(1, 1)) << "it was granted before";
  EXPECT_FALSE(gate_.IsWriting(0, 2)) << "of another epoch";
  ASSERT_TRUE(Commit(CommitRequest(1, 7)).ok());
  EXPECT_FALSE(gate_.IsWriting(0, 1));
}

TEST_F(CheckpointGateTest, ARowThatCannotBeParsedIsNamed) {
  EXPECT_EQ(gate_.Load("grant/acme/mnist/1", "\xFF").message(), "row grant/acme/mnist/1 is not a grant");
  EXPECT_EQ(gate_.Load("checkpoint/acme/mnist/x/1", "").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace farandole
