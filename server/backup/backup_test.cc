// Backups of a state directory, and what a check finds in one.
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/backup/backup_file.h"
#include "server/backup/state_backup.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixMillis(3'600'000);

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    root_ = ::testing::TempDir() + "/backup.XXXXXX";
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
    state_ = root_ + "/state";
    file_ = root_ + "/backup";
    EXPECT_EQ(mkdir(state_.c_str(), 0700), 0);
    WriteText(state_ + "/token", "the token\n");
    WriteText(state_ + "/key", "the key\n");
  }
  ~BackupTest() override { fs::remove_all(root_); }

  void Put(const std::string& key, const std::string& value) {
    const auto store = OpenRocksdbStore(state_ + "/store").value();
    const uint64_t revision = AcquireAndWait(store.get(), "test").value();
    ASSERT_TRUE(CommitAndWait(store.get(), "test", revision, StoreBatch{{}, {{key, value}}}).ok());
  }
  // Rows in a table, and others in the log.
  void Fill() {
    v1::SchemaRecord schema;
    schema.set_version(3);
    Put("meta/schema", schema.SerializeAsString());
    for (int i = 0; i < 5; ++i) Put(absl::StrCat("checkpoint/t/j/c/", i), CheckpointRow(i));
    ASSERT_TRUE(CompactRocksdbStore(state_ + "/store").ok());
    for (int i = 5; i < 8; ++i) Put(absl::StrCat("checkpoint/t/j/c/", i), CheckpointRow(i));
  }
  static std::string CheckpointRow(int i) {
    v1::Checkpoint checkpoint;
    checkpoint.set_step(i);
    checkpoint.set_path(absl::StrCat("/data/", std::string(200, 'x'), i));
    return checkpoint.SerializeAsString();
  }
  std::vector<std::string> Rows(const std::string& state) const {
    std::vector<std::string> rows;
    const auto read = ReadRowsOffline(state + "/store", "");
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return rows;
    for (const StoreRow& row : *read) rows.push_back(absl::StrCat(row.key, "=", row.value));
    return rows;
  }
  // Calls `look` with each file of the store that has this ending with one byte changed, every `stride` bytes.
  void WithEachFlip(const std::string& ending, size_t stride, const std::function<void(const std::string&)>& look) {
    size_t flips = 0;
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(state_ + "/store")) paths.push_back(entry.path().string());
    for (const std::string& path : paths) {
      if (fs::path(path).filename().string().find(ending) == std::string::npos) continue;
      const std::string whole = FileText(path);
      for (size_t at = 0; at < whole.size(); at += stride, ++flips) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
        WriteText(path, flipped);
        look(absl::StrCat(path, " at ", at, " of ", whole.size()));
      }
      WriteText(path, whole);
    }
    EXPECT_GT(flips, 3u) << ending;
  }

  std::string root_;
  std::string state_;
  std::string file_;
};

TEST_F(BackupTest, WhatIsRestoredIsWhatWasBackedUp) {
  Fill();
  const absl::StatusOr<BackupFacts> made = BackUpState(state_, file_, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->rows, Rows(state_).size());
  struct stat facts = {};
  ASSERT_EQ(stat(file_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  const std::string to = root_ + "/restored";
  const absl::StatusOr<BackupFacts> restored = RestoreState(file_, to);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->sha256, made->sha256);
  EXPECT_EQ(restored->head.made_unix_ms(), 3'600'000);
  EXPECT_EQ(Rows(to), Rows(state_));
  EXPECT_EQ(FileText(to + "/token"), "the token\n");
  EXPECT_EQ(FileText(to + "/key"), "the key\n");
  for (const auto& entry : fs::recursive_directory_iterator(to)) {
    ASSERT_EQ(stat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
  EXPECT_FALSE(fs::exists(to + "/restoring"));
  EXPECT_TRUE(CheckState(to).ok());
}

TEST_F(BackupTest, ABackupOverAFileThatIsThereIsRefused) {
  Fill();
  WriteText(file_, "another one");
  const absl::Status refused = BackUpState(state_, file_, kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr(file_));
  EXPECT_EQ(FileText(file_), "another one");
  EXPECT_EQ(BackUpState(root_ + "/none", root_ + "/b", kNow).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(BackupTest, EveryFlippedByteAndEveryCutOfABackupIsFound) {
  Fill();
  ASSERT_TRUE(BackUpState(state_, file_, kNow).ok());
  const std::string whole = FileText(file_);
  const std::string to = root_ + "/restored";
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x01);
    WriteText(file_, flipped);
    ASSERT_FALSE(ReadBackup(file_, nullptr).ok()) << at;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteText(file_, whole.substr(0, size));
    ASSERT_FALSE(ReadBackup(file_, nullptr).ok()) << size;
  }
  WriteText(file_, whole + "x");
  EXPECT_FALSE(ReadBackup(file_, nullptr).ok());
  EXPECT_EQ(RestoreState(file_, to).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(to)) << "nothing is made of a damaged backup";
  WriteText(file_, "something else, which is long enough to be a backup of some kind, but is none");
  EXPECT_EQ(RestoreState(file_, to).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BackupTest, RestoringIntoWhatIsNotEmptyIsRefused) {
  Fill();
  ASSERT_TRUE(BackUpState(state_, file_, kNow).ok());
  const absl::Status refused = RestoreState(file_, state_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("is not empty"));
  const std::string to = root_ + "/open";
  ASSERT_EQ(mkdir(to.c_str(), 0700), 0);
  ASSERT_EQ(chmod(to.c_str(), 0755), 0);
  EXPECT_THAT(RestoreState(file_, to).status().message(), HasSubstr("with mode 0755"));
  ASSERT_EQ(chmod(to.c_str(), 0700), 0);
  EXPECT_TRUE(RestoreState(file_, to).ok());
}

TEST_F(BackupTest, ARestoringThatWasCutOffIsBegunAnew) {
  Fill();
  ASSERT_TRUE(BackUpState(state_, file_, kNow).ok());
  const std::string to = root_ + "/restored";
  // As after a kill between two renames.
  fs::create_directories(to + "/restoring/store");
  ASSERT_EQ(chmod(to.c_str(), 0700), 0);
  WriteText(to + "/token", "half");
  WriteText(to + "/restoring/store/CURRENT", "half");
  const absl::StatusOr<BackupFacts> restored = RestoreState(file_, to);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(Rows(to), Rows(state_));
  EXPECT_EQ(FileText(to + "/token"), "the token\n");
}

TEST_F(BackupTest, ABackupOfALaterVersionIsRefused) {
  v1::SchemaRecord schema;
  schema.set_version(99);
  Put("meta/schema", schema.SerializeAsString());
  ASSERT_TRUE(BackUpState(state_, file_, kNow).ok());
  const absl::Status refused = RestoreState(file_, root_ + "/restored").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("rows of version 99"));
}

TEST_F(BackupTest, ACheckFindsAFlippedByteOfEveryFileThatHasRows) {
  Fill();
  const absl::StatusOr<StateVerdict> whole = CheckState(state_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->rows, Rows(state_).size());
  EXPECT_TRUE(whole->broken.empty()) << whole->broken.front();
  for (const char* ending : {".sst", ".log"}) {
    WithEachFlip(ending, 23, [&](const std::string& where) {
      const absl::StatusOr<StateVerdict> found = CheckState(state_);
      EXPECT_FALSE(found.ok() && found->broken.empty()) << where;
      EXPECT_FALSE(BackUpState(state_, file_, kNow).ok()) << where << ": a backup would lack rows";
      fs::remove(file_);
    });
  }
  WithEachFlip("CURRENT", 1, [&](const std::string& where) { EXPECT_FALSE(CheckState(state_).ok()) << where; });
  const size_t rows = Rows(state_).size();
  WithEachFlip("MANIFEST", 3, [&](const std::string& where) {
    const absl::StatusOr<StateVerdict> found = CheckState(state_);
    // One that does not matter changes nothing.
    EXPECT_TRUE(!found.ok() || found->rows == rows) << where;
  });
  EXPECT_TRUE(CheckState(state_).ok());
}

TEST_F(BackupTest, ACheckNamesRowsThatHoldSomethingElse) {
  Fill();
  Put("job/t/j", "\xFF");
  Put("nonsense/t", "");
  const absl::StatusOr<StateVerdict> found = CheckState(state_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->broken, ::testing::ElementsAre("row job/t/j does not hold what its kind wants, in 1 byte",
                                                    "row nonsense/t is of no known kind"));
}

TEST_F(BackupTest, ACheckKnowsALaunchThatWaits) {
  Fill();
  v1::QueuedRecord waits;
  waits.set_tenant("t");
  waits.set_job("j");
  Put("queue/t/j", waits.SerializeAsString());
  const absl::StatusOr<StateVerdict> found = CheckState(state_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->broken, ::testing::IsEmpty());
}

TEST_F(BackupTest, ADescriptionCountsRowsByKind) {
  Fill();
  const absl::StatusOr<StateFacts> facts = DescribeState(state_);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->schema, 3u);
  EXPECT_EQ(facts->kinds.at("checkpoint").rows, 8u);
  EXPECT_GT(facts->kinds.at("checkpoint").bytes, 8 * 200u);
  EXPECT_GT(facts->disk_bytes, facts->kinds.at("checkpoint").bytes / 2);
  EXPECT_EQ(facts->holder, 0);
}

}  // namespace
}  // namespace farandole
