#include "server/store/rocksdb_store.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rocksdb/db.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "server/store/group_commit_store.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_files.h"
#include "server/store/store_medium.h"

namespace farandole {
namespace {

rocksdb::Options DatabaseOptions(rocksdb::Env* files) {
  rocksdb::Options options;
  options.env = files;
  options.create_if_missing = true;
  // Of whole tables, for `farandole store check`: a block's own checksum says nothing of what lies between the blocks.
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  // A loss of power leaves a torn last record behind; other records that cannot be read are an error, not dropped.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // The rows are small and few: a modest memtable keeps the coordinator's memory and its restart time low.
  options.write_buffer_size = 8 << 20;
  options.max_total_wal_size = 32 << 20;
  // A quota counts the files' bytes, and is to bound those of the rows that are read from them.
  options.compression = rocksdb::kNoCompression;
  options.max_open_files = 64;
  options.max_background_jobs = 2;
  options.avoid_flush_during_shutdown = true;
  options.info_log = MakeSilentLog();
  return options;
}

absl::Status DescribeOpenFailure(const std::string& directory, const rocksdb::Status& status) {
  const std::string words = status.ToString();
  if (absl::StrContains(words, "lock hold by current process")) {
    return absl::FailedPreconditionError(
        absl::StrCat("store ", directory, " is held by another coordinator in this process"));
  }
  if (absl::StrContains(words, "While lock file")) {
    const pid_t holder = StoreHolder(directory);
    return absl::FailedPreconditionError(absl::StrCat("store ", directory, " is held by another coordinator",
                                                      holder > 0 ? absl::StrCat(" (process ", holder, ")") : "",
                                                      "; stop it, or choose another directory with --state-dir"));
  }
  const std::string sentence = absl::StrCat("store ", directory, ": ", words);
  return status.IsCorruption() ? absl::DataLossError(sentence) : absl::UnavailableError(sentence);
}

class RocksdbMedium : public StoreMedium {
 public:
  explicit RocksdbMedium(std::string directory) : directory_(std::move(directory)) {}
  ~RocksdbMedium() override { Close(); }

  absl::Status Open() {
    rocksdb::DB* database = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(files_.get()), directory_, &database);
    if (!status.ok()) return DescribeOpenFailure(directory_, status);
    database_.reset(database);
    return absl::OkStatus();
  }

  absl::Status Write(absl::Span<const StoreBatch> batches) override {
    // All of it becomes durable at once, so that of a row only the last state is written: a job that changes its record
    // again and again writes it once.
    rocksdb::WriteBatch write;
    absl::flat_hash_set<absl::string_view> written;
    for (auto batch = batches.rbegin(); batch != batches.rend(); ++batch) {
      for (auto row = batch->puts.rbegin(); row != batch->puts.rend(); ++row) {
        if (written.insert(row->key).second) write.Put(row->key, row->value);
      }
      for (const std::string& key : batch->deletes) {
        if (written.insert(key).second) write.Delete(key);
      }
    }
    rocksdb::WriteOptions durable;
    durable.sync = true;
    const rocksdb::Status status = database_->Write(durable, &write);
    return status.ok() ? absl::OkStatus() : Unavailable(status);
  }

  absl::Status Compact() {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    const rocksdb::Status status = database_->CompactRange(all, nullptr, nullptr);
    return status.ok() ? absl::OkStatus() : Unavailable(status);
  }

  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) override {
    if (database_ == nullptr) return Closed();
    std::string value;
    const rocksdb::Status status = database_->Get(rocksdb::ReadOptions(), key, &value);
    if (status.ok()) return value;
    if (status.IsNotFound()) return std::nullopt;
    return Unavailable(status);
  }

  absl::StatusOr<std::vector<StoreRow>> Scan(const std::string& prefix, const std::string& after,
                                             size_t most) override {
    if (database_ == nullptr) return Closed();
    std::vector<StoreRow> rows;
    std::unique_ptr<rocksdb::Iterator> iterator(database_->NewIterator(rocksdb::ReadOptions()));
    iterator->Seek(std::max(prefix, after));
    if (iterator->Valid() && iterator->key() == after) iterator->Next();
    for (; iterator->Valid() && iterator->key().starts_with(prefix) && rows.size() < most; iterator->Next()) {
      rows.push_back({iterator->key().ToString(), iterator->value().ToString()});
    }
    if (!iterator->status().ok()) return Unavailable(iterator->status());
    return rows;
  }

  absl::StatusOr<uint64_t> Measure(const std::string& prefix) override {
    if (database_ == nullptr) return Closed();
    // Keys are text, so that none has this byte.
    const std::string behind = prefix + '\xFF';
    const rocksdb::Range range(prefix, behind);
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = true;
    uint64_t bytes = 0;
    const rocksdb::Status status =
        database_->GetApproximateSizes(options, database_->DefaultColumnFamily(), &range, 1, &bytes);
    if (!status.ok()) return Unavailable(status);
    return bytes;
  }

  // A failed write leaves RocksDB read-only, with a log whose end is unknown; only opening it anew reads the disk's
  // real state.
  absl::Status Recover() override {
    Close();
    return Open();
  }

 private:
  void Close() {
    if (database_ == nullptr) return;
    // Every completed write is in the log and synced, so that an error here loses nothing.
    database_->Close().PermitUncheckedError();
    database_.reset();
  }
  absl::Status Closed() const {
    return absl::UnavailableError(absl::StrCat("store ", directory_, " is closed after a failed write"));
  }
  absl::Status Unavailable(const rocksdb::Status& status) const {
    return absl::UnavailableError(absl::StrCat("store ", directory_, ": ", status.ToString()));
  }

  const std::string directory_;
  const std::unique_ptr<rocksdb::Env> files_ = MakePrivateFiles();
  std::unique_ptr<rocksdb::DB> database_;
};

class Filler : public RocksdbFiller {
 public:
  explicit Filler(const std::string& directory) : medium_(directory) {}
  absl::Status Open() { return medium_.Open(); }

  absl::Status Add(StoreRow row) override {
    bytes_ += row.key.size() + row.value.size();
    batch_.puts.push_back(std::move(row));
    return bytes_ < kMaxBatchBytes ? absl::OkStatus() : Finish();
  }
  absl::Status Finish() override {
    const StoreBatch batch = std::exchange(batch_, StoreBatch());
    bytes_ = 0;
    return batch.empty() ? absl::OkStatus() : medium_.Write({batch});
  }

 private:
  RocksdbMedium medium_;
  StoreBatch batch_;
  size_t bytes_ = 0;
};

bool HasDatabase(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(directory, "/CURRENT"), error);
}

}  // namespace

absl::Status CompactRocksdbStore(const std::string& directory) {
  if (!HasDatabase(directory))
    return absl::NotFoundError(absl::StrCat("there is no coordinator's store in ", directory));
  RocksdbMedium medium(directory);
  if (absl::Status status = medium.Open(); !status.ok()) return status;
  return medium.Compact();
}

absl::StatusOr<std::unique_ptr<RocksdbFiller>> RocksdbFiller::Create(const std::string& directory) {
  if (HasDatabase(directory)) return absl::FailedPreconditionError(absl::StrCat(directory, " has a store already"));
  auto filler = std::make_unique<Filler>(directory);
  if (absl::Status status = filler->Open(); !status.ok()) return status;
  return filler;
}

absl::StatusOr<std::unique_ptr<Store>> OpenRocksdbStore(const std::string& directory) {
  auto medium = std::make_unique<RocksdbMedium>(directory);
  if (absl::Status status = medium->Open(); !status.ok()) return status;
  return GroupCommitStore::Start(std::move(medium));
}

}  // namespace farandole
