// The order in which a store completes calls that are queued, for every Store.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
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
#include "server/store/store_wait.h"

namespace farandole {
namespace {

StoreBatch Put(std::string key, std::string value) { return StoreBatch{{}, {{std::move(key), std::move(value)}}}; }

std::unique_ptr<Store> OpenFresh() {
  std::string directory = absl::StrCat(::testing::TempDir(), "/store-XXXXXX");
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  return OpenRocksdbStore(directory).value();
}

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Store>()> open;
};

// The store's thread waits in a completion meanwhile, so that all that the test queues is there at once.
class QueuedCallsTest : public ::testing::TestWithParam<Kind> {
 protected:
  // Each owner that is read has two rows of so many bytes.
  void Hold(size_t bytes = 600 << 10) {
    const uint64_t revision = AcquireAndWait(store_.get(), "t/hold").value();
    for (const char* owner : {"a/1", "a/2", "a/3", "b/1"}) {
      for (const char* part : {"/1", "/2"}) {
        const std::string key = absl::StrCat("row/", owner, part);
        EXPECT_TRUE(CommitAndWait(store_.get(), "t/hold", revision, Put(key, std::string(bytes, 'x'))).ok());
      }
    }
    commit_revision_ = AcquireAndWait(store_.get(), "t/commit").value();
    absl::Notification waits;
    store_->Acquire("t/hold", [this, &waits](const absl::StatusOr<uint64_t>&) {
      waits.Notify();
      held_.WaitForNotification();
    });
    waits.WaitForNotification();
  }
  void Read(const std::string& owner, bool then_commit = false, size_t rows = 2) {
    store_->AcquireRows(owner, {}, {absl::StrCat("row/", owner)},
                        [this, owner, then_commit, rows](const absl::StatusOr<AcquiredRows>& acquired) {
                          ASSERT_TRUE(acquired.ok()) << acquired.status();
                          EXPECT_EQ(acquired->rows.size(), rows);
                          Tell(owner);
                          if (then_commit) Commit();
                        });
  }
  void Commit() {
    store_->Commit("t/commit", commit_revision_, Put("x", "1"), [this](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      Tell("commit");
    });
  }
  // Of a row of so many bytes, which tells how many there were before.
  void Commit(const std::string& owner, uint64_t revision, size_t bytes) {
    const std::string value = absl::StrCat(commits_++, std::string(bytes, 'x'));
    store_->Commit(owner, revision, Put(absl::StrCat("of/", owner), value), [this, owner](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      Tell(owner);
    });
  }
  void Tell(const std::string& what) {
    const absl::MutexLock lock(&mutex_);
    ended_.push_back(what);
  }
  // In their order, when so many have ended.
  std::vector<std::string> Ended(size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto are_there = [&] { return ended_.size() >= count; };
    mutex_.Await(absl::Condition(&are_there));
    return ended_;
  }

  const std::unique_ptr<Store> store_ = GetParam().open();
  absl::Notification held_;

 private:
  uint64_t commit_revision_ = 0;
  int commits_ = 0;
  absl::Mutex mutex_;
  std::vector<std::string> ended_;
};

TEST_P(QueuedCallsTest, ACommitDoesNotWaitForManyReads) {
  Hold();
  for (const char* owner : {"a/1", "a/2", "a/3"}) Read(owner, /*then_commit=*/true);
  Commit();
  held_.Notify();
  EXPECT_THAT(Ended(7), ::testing::ElementsAre("commit", "a/1", "commit", "a/2", "commit", "a/3", "commit"));
}

TEST_P(QueuedCallsTest, NobodyWaitsForTheWholeReadingOfALargeJob) {
  const uint64_t revision = AcquireAndWait(store_.get(), "a/big").value();
  for (int row = 0; row < 200; ++row) {
    const StoreBatch batch = Put(absl::StrCat("row/a/big/", row), std::string(20 << 10, 'x'));
    ASSERT_TRUE(CommitAndWait(store_.get(), "a/big", revision, batch).ok());
  }
  Hold();
  Read("a/big", /*then_commit=*/false, /*rows=*/200);
  Read("b/1", /*then_commit=*/true);
  held_.Notify();
  EXPECT_THAT(Ended(3), ::testing::ElementsAre("b/1", "commit", "a/big"));
}

TEST_P(QueuedCallsTest, SmallJobsAreReadTogether) {
  Hold(/*bytes=*/1);
  for (const char* owner : {"a/1", "a/2", "a/3"}) Read(owner, /*then_commit=*/true);
  Commit();
  held_.Notify();
  EXPECT_THAT(Ended(7), ::testing::ElementsAre("commit", "a/1", "a/2", "a/3", "commit", "commit", "commit"));
}

TEST_P(QueuedCallsTest, TenantsRowsAreReadInTurn) {
  Hold();
  for (const char* owner : {"a/1", "a/2", "a/3", "b/1"}) Read(owner);
  held_.Notify();
  EXPECT_THAT(Ended(4), ::testing::ElementsAre("a/1", "b/1", "a/2", "a/3"));
}

TEST_P(QueuedCallsTest, ATenantsManyMegabytesMakeAnotherOneWaitForOneTurn) {
  const uint64_t greedy = AcquireAndWait(store_.get(), "a/1").value();
  Hold();
  for (int i = 0; i < 5; ++i) Commit("a/1", greedy, 600 << 10);
  Commit();
  held_.Notify();
  EXPECT_THAT(Ended(6), ::testing::ElementsAre("a/1", "a/1", "commit", "a/1", "a/1", "a/1"));
}

TEST_P(QueuedCallsTest, AScanFindsTheRowsOfAllEarlierCommits) {
  const uint64_t greedy = AcquireAndWait(store_.get(), "a/1").value();
  Hold();
  for (int i = 0; i < 5; ++i) Commit("a/1", greedy, 600 << 10);
  store_->Scan("of/a/1", [this](const absl::StatusOr<std::vector<StoreRow>>& rows) {
    EXPECT_EQ(rows.value().at(0).value.substr(0, 2), "4x");
    Tell("scan");
  });
  held_.Notify();
  EXPECT_THAT(Ended(6), ::testing::ElementsAre("a/1", "a/1", "a/1", "a/1", "a/1", "scan"));
}

TEST_P(QueuedCallsTest, TheLastOfCommitsThatAreWrittenTogetherCounts) {
  const uint64_t revision = AcquireAndWait(store_.get(), "b/1").value();
  Hold();
  StoreBatch first = Put("k/1", "a"), second = Put("k/2", "b"), third = Put("k/2", "c");
  first.puts.push_back({"k/3", "a"});
  second.deletes.push_back("k/1");
  third.deletes = {"k/2", "k/3"};
  for (const StoreBatch& batch : {first, second, third})
    store_->Commit("b/1", revision, batch, [this](const absl::Status&) { Tell("b/1"); });
  held_.Notify();
  Ended(3);
  const auto rows = ScanAndWait(store_.get(), "k/").value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].key, "k/2");
  EXPECT_EQ(rows[0].value, "c");
}

TEST_P(QueuedCallsTest, AStoreThatEndsReadsWhatWasCalledBefore) {
  int read = 0;
  std::unique_ptr<Store> store = GetParam().open();
  for (int i = 0; i < 20; ++i) {
    store->AcquireRows(absl::StrCat("t/", i), {"x"}, {}, [&](const absl::StatusOr<AcquiredRows>& acquired) {
      EXPECT_TRUE(acquired.ok()) << acquired.status();
      ++read;
    });
  }
  store.reset();
  EXPECT_EQ(read, 20);
}

INSTANTIATE_TEST_SUITE_P(AllStores, QueuedCallsTest,
                         ::testing::Values(Kind{"Memory", [] { return MakeMemoryStore(); }},
                                           Kind{"Rocksdb", [] { return OpenFresh(); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace farandole
