// One behaviour for every Store: a test added here holds for all of them.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/memory_store.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

std::string FreshDirectory() {
  std::string name = absl::StrCat(::testing::TempDir(), "/store-XXXXXX");
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  return name;
}

std::unique_ptr<Store> OpenOrDie(const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksdbStore(directory);
  EXPECT_TRUE(store.ok()) << store.status();
  return std::move(store).value();
}

absl::StatusOr<uint64_t> AcquireNow(Store& store, const std::string& owner) {
  std::promise<absl::StatusOr<uint64_t>> answer;
  store.Acquire(owner, [&](absl::StatusOr<uint64_t> revision) { answer.set_value(std::move(revision)); });
  return answer.get_future().get();
}

absl::Status CommitNow(Store& store, const std::string& owner, uint64_t revision, StoreBatch batch) {
  std::promise<absl::Status> answer;
  store.Commit(owner, revision, std::move(batch), [&](absl::Status status) { answer.set_value(std::move(status)); });
  return answer.get_future().get();
}

// The rows as "key=value".
std::vector<std::string> ScanNow(Store& store, const std::string& prefix) {
  std::promise<absl::StatusOr<std::vector<StoreRow>>> answer;
  store.Scan(prefix, [&](absl::StatusOr<std::vector<StoreRow>> rows) { answer.set_value(std::move(rows)); });
  absl::StatusOr<std::vector<StoreRow>> rows = answer.get_future().get();
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string> text;
  if (rows.ok()) {
    for (const StoreRow& row : *rows) text.push_back(absl::StrCat(row.key, "=", row.value));
  }
  return text;
}

StoreBatch Put(std::string key, std::string value) { return StoreBatch{{}, {{std::move(key), std::move(value)}}}; }

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Store>()> open;
};

class StoreConformanceTest : public ::testing::TestWithParam<Kind> {
 protected:
  const std::unique_ptr<Store> store_ = GetParam().open();
};

TEST_P(StoreConformanceTest, AnAcquiredOwnerWritesAndReadsBack) {
  const uint64_t revision = AcquireNow(*store_, "t/a").value();
  EXPECT_GE(revision, 1u);
  EXPECT_TRUE(CommitNow(*store_, "t/a", revision, Put("job/t/a", "one")).ok());
  EXPECT_THAT(ScanNow(*store_, "job/"), ::testing::ElementsAre("job/t/a=one"));
}

TEST_P(StoreConformanceTest, ATakeoverReadsTheKeysThatThereAreAndWhatIsBelowThePrefixes) {
  const uint64_t first = AcquireNow(*store_, "t/a").value();
  for (const char* key : {"job/t/a", "job/t/ab", "grant/t/a/1", "grant/t/a/2", "grant/t/ab/1"})
    EXPECT_TRUE(CommitNow(*store_, "t/a", first, Put(key, "v")).ok());
  std::promise<absl::StatusOr<AcquiredRows>> answer;
  store_->AcquireRows("t/a", {"job/t/a", "members/t/a"}, {"grant/t/a/"},
                      [&](absl::StatusOr<AcquiredRows> acquired) { answer.set_value(std::move(acquired)); });
  const absl::StatusOr<AcquiredRows> acquired = answer.get_future().get();
  ASSERT_TRUE(acquired.ok()) << acquired.status();
  EXPECT_GT(acquired->owner_revision, first);
  std::vector<std::string> keys;
  for (const StoreRow& row : acquired->rows) keys.push_back(row.key);
  EXPECT_THAT(keys, ::testing::ElementsAre("job/t/a", "grant/t/a/1", "grant/t/a/2"));
  EXPECT_EQ(CommitNow(*store_, "t/a", first, Put("job/t/a", "stale")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreConformanceTest, AReleasedOwnerLeavesNothingAndGetsNoRevisionTwice) {
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) last = AcquireNow(*store_, "t/a").value();
  StoreBatch release{{"job/t/a"}, {{"gone/t/a", "v"}}, true};
  EXPECT_TRUE(CommitNow(*store_, "t/a", last, Put("job/t/a", "v")).ok());
  EXPECT_TRUE(CommitNow(*store_, "t/a", last, release).ok());
  EXPECT_THAT(ScanNow(*store_, "owner/t/a"), ::testing::IsEmpty());
  EXPECT_THAT(ScanNow(*store_, "job/"), ::testing::IsEmpty());
  EXPECT_THAT(ScanNow(*store_, "gone/"), ::testing::ElementsAre("gone/t/a=v"));
  EXPECT_EQ(CommitNow(*store_, "t/a", last, Put("x", "stale")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_GT(AcquireNow(*store_, "t/a").value(), last);
  EXPECT_EQ(CommitNow(*store_, "t/a", last, Put("x", "stale")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreConformanceTest, APageIsWhatComesBehindAKey) {
  const uint64_t revision = AcquireNow(*store_, "t/a").value();
  for (const char* key : {"o", "p/1", "p/2", "p/3", "q"})
    EXPECT_TRUE(CommitNow(*store_, "t/a", revision, Put(key, "v")).ok());
  const auto page = [&](const std::string& after, size_t most) {
    std::promise<std::vector<std::string>> answer;
    store_->ScanPage("p/", after, most, [&](const absl::StatusOr<std::vector<StoreRow>>& rows) {
      std::vector<std::string> keys;
      for (const StoreRow& row : rows.value()) keys.push_back(row.key);
      answer.set_value(keys);
    });
    return answer.get_future().get();
  };
  EXPECT_THAT(page("", 2), ::testing::ElementsAre("p/1", "p/2"));
  EXPECT_THAT(page("p/2", 2), ::testing::ElementsAre("p/3"));
  EXPECT_THAT(page("p/11", 1), ::testing::ElementsAre("p/2")) << "the key itself may be gone";
  EXPECT_THAT(page("p/3", 2), ::testing::IsEmpty());
}

TEST_P(StoreConformanceTest, EachAcquireGivesAGreaterRevisionAndFencesTheEarlierOne) {
  const uint64_t first = AcquireNow(*store_, "t/a").value();
  const uint64_t second = AcquireNow(*store_, "t/a").value();
  EXPECT_GT(second, first);
  const absl::Status stale = CommitNow(*store_, "t/a", first, Put("job/t/a", "stale"));
  EXPECT_EQ(stale.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(stale.message(), HasSubstr(absl::StrCat("its revision is ", second, ", the commit carries ", first)));
  EXPECT_TRUE(ScanNow(*store_, "job/").empty());
  EXPECT_TRUE(CommitNow(*store_, "t/a", second, Put("job/t/a", "fresh")).ok());
}

TEST_P(StoreConformanceTest, WhoNeverAcquiredIsRefused) {
  EXPECT_EQ(CommitNow(*store_, "t/a", 0, Put("job/t/a", "x")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CommitNow(*store_, "t/a", 1, Put("job/t/a", "x")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreConformanceTest, QueuedCommitsTakeEffectAndAreCompletedInTheOrderOfTheCalls) {
  const uint64_t a = AcquireNow(*store_, "t/a").value();
  const uint64_t b = AcquireNow(*store_, "t/b").value();
  constexpr int kCommits = 500;
  std::vector<int> completed;
  absl::Notification finished;
  for (int i = 0; i < kCommits; ++i) {
    const bool even = i % 2 == 0;
    store_->Commit(even ? "t/a" : "t/b", even ? a : b, Put("last", absl::StrCat(i)), [&, i](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      completed.push_back(i);
      if (i == kCommits - 1) finished.Notify();
    });
  }
  finished.WaitForNotification();
  ASSERT_EQ(completed.size(), static_cast<size_t>(kCommits));
  for (int i = 0; i < kCommits; ++i) EXPECT_EQ(completed[i], i);
  EXPECT_THAT(ScanNow(*store_, "last"), ::testing::ElementsAre(absl::StrCat("last=", kCommits - 1)));
}

TEST_P(StoreConformanceTest, AScanSeesAllEarlierCommitsAndOnlyItsPrefixInOrder) {
  const uint64_t revision = AcquireNow(*store_, "t/a").value();
  for (const char* key : {"p/2", "q/1", "p/1", "p/10", "o"}) {
    store_->Commit("t/a", revision, Put(key, "v"), [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
  }
  EXPECT_THAT(ScanNow(*store_, "p/"), ::testing::ElementsAre("p/1=v", "p/10=v", "p/2=v"));
}

TEST_P(StoreConformanceTest, ABatchDeletesBeforeItPuts) {
  const uint64_t revision = AcquireNow(*store_, "t/a").value();
  ASSERT_TRUE(CommitNow(*store_, "t/a", revision, StoreBatch{{}, {{"x", "1"}, {"y", "1"}}}).ok());
  ASSERT_TRUE(CommitNow(*store_, "t/a", revision, StoreBatch{{"x", "y"}, {{"x", "2"}}}).ok());
  EXPECT_THAT(ScanNow(*store_, ""), ::testing::Contains("x=2"));
  EXPECT_TRUE(ScanNow(*store_, "y").empty());
}

TEST_P(StoreConformanceTest, ABatchAtTheBoundsIsTakenAndOneBeyondIsRefusedWithBothValues) {
  uint64_t revision = AcquireNow(*store_, "t/a").value();
  StoreBatch many;
  for (size_t i = 0; i < kMaxBatchOperations; ++i) many.puts.push_back({absl::StrCat("k", i), ""});
  EXPECT_TRUE(CommitNow(*store_, "t/a", revision, many).ok());
  many.deletes.push_back("k0");
  const absl::Status too_many = CommitNow(*store_, "t/a", revision, many);
  EXPECT_EQ(too_many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(too_many.message(), HasSubstr("has 129 operations, at most 128"));

  revision = AcquireNow(*store_, "t/a").value();
  EXPECT_TRUE(CommitNow(*store_, "t/a", revision, Put("k", std::string(kMaxBatchBytes - 1, 'v'))).ok());
  const absl::Status too_big = CommitNow(*store_, "t/a", revision, Put("k", std::string(kMaxBatchBytes, 'v')));
  EXPECT_EQ(too_big.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(too_big.message(), HasSubstr("has 1048577 bytes, at most 1048576"));
}

// All are queued before the first is answered, as a job's Steps are: commits behind the refused one must not land.
TEST_P(StoreConformanceTest, AfterARefusedCommitNothingOfThatOwnerLandsUntilItIsAcquiredAnew) {
  StoreBatch too_many;
  for (size_t i = 0; i <= kMaxBatchOperations; ++i) too_many.puts.push_back({absl::StrCat("refused/", i), ""});
  StoreBatch of_the_store = Put("refused/a", "1");
  of_the_store.puts.push_back({"owner/t/a", "99"});
  for (const StoreBatch& refused : {too_many, Put("refused/k", std::string(kMaxBatchBytes, 'v')), of_the_store}) {
    const uint64_t revision = AcquireNow(*store_, "t/a").value();
    const uint64_t other = AcquireNow(*store_, "t/b").value();
    std::vector<absl::Status> told;
    const auto tell = [&](absl::Status status) { told.push_back(std::move(status)); };
    store_->Commit("t/a", revision, Put("first", "1"), tell);
    store_->Commit("t/a", revision, refused, tell);
    store_->Commit("t/a", revision, Put("later", "1"), tell);
    store_->Commit("t/b", other, Put("others", "1"), tell);
    EXPECT_THAT(ScanNow(*store_, "later"), ::testing::IsEmpty());
    EXPECT_THAT(ScanNow(*store_, "refused"), ::testing::IsEmpty());
    EXPECT_THAT(ScanNow(*store_, "first"), ::testing::ElementsAre("first=1"));
    EXPECT_THAT(ScanNow(*store_, "others"), ::testing::ElementsAre("others=1"));
    ASSERT_EQ(told.size(), 4u);
    EXPECT_TRUE(told[0].ok()) << told[0];
    EXPECT_EQ(told[1].code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(told[2].code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(told[2].message(), HasSubstr(absl::StrCat("an earlier commit of t/a failed: ", told[1].message())));
    EXPECT_TRUE(told[3].ok()) << told[3];

    const uint64_t anew = AcquireNow(*store_, "t/a").value();
    // An error of a stale revision does not stop the one that holds the owner now.
    EXPECT_EQ(CommitNow(*store_, "t/a", revision, refused).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(CommitNow(*store_, "t/a", anew, StoreBatch{{"first", "others"}, {}}).ok());
  }
}

TEST_P(StoreConformanceTest, CallsMadeBeforeDestructionAreCompleted) {
  std::unique_ptr<Store> store = GetParam().open();
  const uint64_t revision = AcquireNow(*store, "t/a").value();
  int completed = 0;
  for (int i = 0; i < 100; ++i) {
    store->Commit("t/a", revision, Put("k", absl::StrCat(i)), [&](absl::Status) { ++completed; });
  }
  store.reset();
  EXPECT_EQ(completed, 100);
}

INSTANTIATE_TEST_SUITE_P(AllStores, StoreConformanceTest,
                         ::testing::Values(Kind{"Memory", [] { return MakeMemoryStore(); }},
                                           Kind{"Rocksdb", [] { return OpenOrDie(FreshDirectory()); }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(RocksdbStoreTest, RowsAndRevisionsSurviveAReopening) {
  const std::string directory = FreshDirectory();
  uint64_t revision = 0;
  {
    const std::unique_ptr<Store> store = OpenOrDie(directory);
    revision = AcquireNow(*store, "t/a").value();
    ASSERT_TRUE(CommitNow(*store, "t/a", revision, Put("job/t/a", "one")).ok());
  }
  const std::unique_ptr<Store> store = OpenOrDie(directory);
  EXPECT_THAT(ScanNow(*store, "job/"), ::testing::ElementsAre("job/t/a=one"));
  EXPECT_GT(AcquireNow(*store, "t/a").value(), revision);
  EXPECT_EQ(CommitNow(*store, "t/a", revision, Put("job/t/a", "stale")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RocksdbStoreTest, ARevisionOfAReleasedOwnerIsNotGivenAgainAfterAReopening) {
  const std::string directory = FreshDirectory();
  uint64_t last = 0;
  {
    const std::unique_ptr<Store> store = OpenOrDie(directory);
    for (int i = 0; i < 3; ++i) last = AcquireNow(*store, "t/a").value();
    ASSERT_TRUE(CommitNow(*store, "t/a", last, StoreBatch{{}, {}, true}).ok());
  }
  EXPECT_GT(AcquireNow(*OpenOrDie(directory), "t/a").value(), last);
}

TEST(RocksdbStoreTest, ACompletedCommitSurvivesAKilledProcess) {
  const std::string directory = FreshDirectory();
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Store> store = OpenOrDie(directory);
    const uint64_t revision = AcquireNow(*store, "t/a").value();
    if (CommitNow(*store, "t/a", revision, Put("job/t/a", "one")).ok()) kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(ScanNow(*OpenOrDie(directory), "job/"), ::testing::ElementsAre("job/t/a=one"));
}

TEST(RocksdbStoreTest, ADirectoryHeldByAnotherProcessIsNamedWithThatProcess) {
  const std::string directory = FreshDirectory();
  int ready[2], leave[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(leave), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Store> store = OpenOrDie(directory);
    char byte = 'r';
    _exit(write(ready[1], &byte, 1) == 1 && read(leave[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 'l';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const absl::Status status = OpenRocksdbStore(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr(absl::StrCat(directory, " is held by another coordinator (process ", child, ")")));
  ASSERT_EQ(write(leave[1], &byte, 1), 1);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(RocksdbStoreTest, ADirectoryHeldInThisProcessIsNamed) {
  const std::string directory = FreshDirectory();
  const std::unique_ptr<Store> store = OpenOrDie(directory);
  const absl::Status status = OpenRocksdbStore(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(directory));
}

TEST(RocksdbStoreTest, ADirectoryThatCannotBeMadeIsNamed) {
  const absl::Status status = OpenRocksdbStore("/proc/farandole").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("/proc/farandole"));
}

// A file size limit stands in for the full disk: writes fail half-way, as they do there.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit full = {bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(RocksdbStoreTest, AFullDiskIsUnavailableAndTheOwnerIsRefusedUntilItIsAcquiredAnew) {
  const std::string directory = FreshDirectory();
  const std::unique_ptr<Store> store = OpenOrDie(directory);
  const uint64_t revision = AcquireNow(*store, "t/a").value();
  ASSERT_TRUE(CommitNow(*store, "t/a", revision, Put("kept", "1")).ok());
  {
    const FullDisk full(64 << 10);
    const absl::Status status = CommitNow(*store, "t/a", revision, Put("lost", std::string(512 << 10, 'x')));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(status.message(), HasSubstr(directory));
  }
  EXPECT_EQ(CommitNow(*store, "t/a", revision, Put("later", "1")).code(), absl::StatusCode::kUnavailable);
  const absl::StatusOr<uint64_t> anew = AcquireNow(*store, "t/a");
  ASSERT_TRUE(anew.ok()) << anew.status();
  EXPECT_TRUE(CommitNow(*store, "t/a", *anew, Put("after", "1")).ok());
  EXPECT_THAT(ScanNow(*store, "kept"), ::testing::ElementsAre("kept=1"));
  EXPECT_TRUE(ScanNow(*store, "later").empty());
}

StoreBatch Patient(std::string key, std::string value) {
  StoreBatch batch = Put(std::move(key), std::move(value));
  batch.is_patient = true;
  return batch;
}

class FullDiskTest : public ::testing::Test {
 protected:
  // Owner t/a writes patiently, more than there is room for.
  void Fill() {
    ASSERT_TRUE(CommitNow(*store_, "t/a", revision_, Put("kept", "1")).ok());
    full_.emplace(64 << 10);
    for (int i = 0; i < 3; ++i) {
      store_->Commit("t/a", revision_, Patient(absl::StrCat("row", i), std::string(256 << 10, 'x')),
                     [this, i](const absl::Status& status) {
                       const absl::MutexLock lock(&mutex_);
                       ended_.emplace_back(i, status);
                     });
    }
  }
  std::vector<std::pair<int, absl::Status>> AwaitEnded(size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto are_there = [&] { return ended_.size() >= count; };
    mutex_.Await(absl::Condition(&are_there));
    return ended_;
  }
  void AwaitTrouble() {
    while (store_->Trouble().empty()) std::this_thread::yield();
  }

  const std::string directory_ = FreshDirectory();
  std::unique_ptr<Store> store_ = OpenOrDie(directory_);
  const uint64_t revision_ = AcquireNow(*store_, "t/a").value();
  std::optional<FullDisk> full_;
  absl::Mutex mutex_;
  std::vector<std::pair<int, absl::Status>> ended_;
};

TEST_F(FullDiskTest, PatientBatchesWaitForRoomInTheirOrderWhileOthersFailAtOnce) {
  Fill();
  AwaitTrouble();
  EXPECT_THAT(store_->Trouble(), HasSubstr(directory_));
  EXPECT_THAT(store_->Trouble(), HasSubstr("nothing can be made durable"));
  EXPECT_EQ(AcquireNow(*store_, "t/b").status().code(), absl::StatusCode::kUnavailable);
  // One that is not patient comes behind those of its owner that are.
  store_->Commit("t/a", revision_, Put("row3", "3"), [this](const absl::Status& status) {
    const absl::MutexLock lock(&mutex_);
    ended_.emplace_back(3, status);
  });
  EXPECT_EQ(AcquireNow(*store_, "t/c").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(AwaitEnded(0).empty()) << "none is done, and none has failed";
  full_.reset();
  const auto ended = AwaitEnded(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ended[i].first, i);
    EXPECT_TRUE(ended[i].second.ok()) << ended[i].second;
  }
  EXPECT_EQ(ScanNow(*store_, "row").size(), 4u);
  EXPECT_TRUE(AcquireNow(*store_, "t/b").ok());
  while (!store_->Trouble().empty()) std::this_thread::yield();
  store_.reset();
  store_ = OpenOrDie(directory_);
  EXPECT_EQ(ScanNow(*store_, "row").size(), 4u) << "and durable they are";
}

TEST_F(FullDiskTest, AtTheEndOfPatienceWhatWaitsFails) {
  Fill();
  AwaitTrouble();
  store_->EndPatience();
  for (const auto& [i, status] : AwaitEnded(3)) EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << i;
  full_.reset();
  EXPECT_EQ(CommitNow(*store_, "t/a", revision_, Put("later", "1")).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ScanNow(*store_, "row").empty());
}

TEST_F(FullDiskTest, AStoreThatEndsKeepsNobodyWaiting) {
  Fill();
  AwaitTrouble();
  store_.reset();
  EXPECT_EQ(AwaitEnded(3).size(), 3u);
}

TEST_F(FullDiskTest, AStoreThatEndsReadsWhatItsLastTryMadeDurable) {
  Fill();
  // More than it reads at a time.
  for (int i = 3; i < 8; ++i) {
    store_->AcquireRows("t/a", {}, {"row"}, [this, i](const absl::StatusOr<AcquiredRows>& acquired) {
      const absl::MutexLock lock(&mutex_);
      ended_.emplace_back(i, acquired.status());
      EXPECT_TRUE(!acquired.ok() || acquired->rows.size() == 3) << acquired->rows.size();
    });
  }
  AwaitTrouble();
  // In their turn behind those, so that all are held.
  EXPECT_EQ(AcquireNow(*store_, "t/b").status().code(), absl::StatusCode::kUnavailable);
  full_.reset();
  store_.reset();
  const auto ended = AwaitEnded(0);
  EXPECT_EQ(ended.size(), 8u);
  for (const auto& [i, status] : ended) EXPECT_TRUE(status.ok()) << i << ": " << status;
}

}  // namespace
}  // namespace farandole
