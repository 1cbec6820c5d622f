#include "server/store/offline_reader.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/store/rocksdb_store.h"

namespace farandole {
namespace {

class OfflineReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "/offline.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    root_ = made;
    directory_ = root_ + "/store";
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(root_);
  }

  void Open() {
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksdbStore(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    absl::Notification done;
    store_->Acquire("job", [&](absl::StatusOr<uint64_t> revision) {
      revision_ = revision.value_or(0);
      done.Notify();
    });
    done.WaitForNotification();
    ASSERT_GT(revision_, 0u);
  }

  void Put(const std::string& key, const std::string& value) {
    absl::Notification done;
    store_->Commit("job", revision_, StoreBatch{{}, {{key, value}}}, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
  }

  // Names and sizes of all files.
  std::map<std::string, uintmax_t> Files() const {
    std::map<std::string, uintmax_t> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      files[entry.path().string()] = entry.is_regular_file() ? entry.file_size() : 0;
    }
    return files;
  }

  std::string root_;
  std::string directory_;
  std::unique_ptr<Store> store_;
  uint64_t revision_ = 0;
};

TEST_F(OfflineReaderTest, CommittedRowsAreReadWhileTheCoordinatorHasTheStoreOpen) {
  Open();
  Put("checkpoint/t/j/model/2", "two");
  Put("checkpoint/t/j/model/1", "one");
  Put("grant/t/j/1", "no");
  const std::map<std::string, uintmax_t> before = Files();
  const absl::StatusOr<std::vector<StoreRow>> rows = ReadRowsOffline(directory_, "checkpoint/");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].key, "checkpoint/t/j/model/1");
  EXPECT_EQ((*rows)[0].value, "one");
  EXPECT_EQ((*rows)[1].value, "two");
  EXPECT_EQ(Files(), before);
  // The coordinator is not disturbed, and what it writes next is seen.
  Put("checkpoint/t/j/model/3", "three");
  EXPECT_EQ(ReadRowsOffline(directory_, "checkpoint/")->size(), 3u);
}

TEST_F(OfflineReaderTest, RowsAreReadAfterTheCoordinatorHasEnded) {
  Open();
  Put("checkpoint/t/j/model/1", "one");
  store_.reset();
  const std::map<std::string, uintmax_t> before = Files();
  const absl::StatusOr<std::vector<StoreRow>> rows = ReadRowsOffline(directory_, "checkpoint/");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 1u);
  EXPECT_EQ(Files(), before);
}

TEST_F(OfflineReaderTest, ReadingBesideAWriterThatRotatesItsFilesFindsEveryOldRow) {
  Open();
  Put("checkpoint/t/j/model/1", "one");
  std::atomic<bool> over = false;
  std::thread writer([&] {
    // Enough for several write buffers, so that logs are deleted and tables made meanwhile.
    const std::string large(900 << 10, 'x');
    for (int i = 0; i < 60; ++i) Put(absl::StrCat("job/t/", i % 7), large);
    over = true;
  });
  int reads = 0;
  while (!over || reads == 0) {
    const absl::StatusOr<std::vector<StoreRow>> rows = ReadRowsOffline(directory_, "checkpoint/");
    EXPECT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows.ok() ? rows->size() : 0, 1u);
    ++reads;
  }
  writer.join();
}

TEST_F(OfflineReaderTest, WhatIsNoStoreIsNamed) {
  const absl::Status none = ReadRowsOffline(directory_, "").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.message(), absl::StrCat("there is no coordinator's store in ", directory_));
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(OfflineReaderTest, ADamagedStoreIsNamed) {
  Open();
  store_.reset();
  std::ofstream(directory_ + "/CURRENT") << "MANIFEST-999999\n";
  const absl::Status status = ReadRowsOffline(directory_, "").status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(directory_), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace farandole
