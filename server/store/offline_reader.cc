#include "server/store/offline_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "server/store/rocksdb_files.h"

namespace farandole {
namespace {

// A coordinator under full load moves its log into a table every few hundred milliseconds, a reading takes a tenth of
// that.
constexpr int kAttempts = 20;

absl::Status Explain(const std::string& directory, const rocksdb::Status& status) {
  const std::string sentence = absl::StrCat("store ", directory, ": ", status.ToString());
  return status.IsCorruption() ? absl::DataLossError(sentence) : absl::UnavailableError(sentence);
}

// RocksDB itself would say neither clearly.
absl::Status CheckReadable(const std::string& directory) {
  const std::string current = absl::StrCat(directory, "/CURRENT");
  if (access(current.c_str(), R_OK) == 0) return absl::OkStatus();
  if (errno == EACCES) return absl::PermissionDeniedError(absl::StrCat("cannot read ", current, ": ", strerror(errno)));
  return absl::NotFoundError(absl::StrCat("there is no coordinator's store in ", directory));
}

// The files that are there with this extension: ".log" is a write-ahead log, ".sst" a table.
absl::StatusOr<std::set<std::string>> FilesOfKind(const std::string& directory, const char* extension) {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == extension) files.insert(entry.path().filename().string());
  }
  if (!error) return files;
  return absl::UnavailableError(absl::StrCat("cannot read directory ", directory, ": ", error.message()));
}

class Reader : public OfflineStore {
 public:
  explicit Reader(std::string directory) : directory_(std::move(directory)) {}

  rocksdb::Status Open(LogEnd log_end) {
    rocksdb::Options options;
    options.info_log = MakeSilentLog();
    // All files are opened at once, so that they can be read when the writer has deleted them.
    options.max_open_files = -1;
    options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
    options.wal_recovery_mode = log_end == LogEnd::kMustBeWhole
                                    ? rocksdb::WALRecoveryMode::kAbsoluteConsistency
                                    : rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    rocksdb::DB* opened = nullptr;
    // A secondary instance, which is meant for this, leaves out tables that it cannot open, and says nothing.
    const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, directory_, &opened);
    database_.reset(opened);
    return status;
  }

  absl::Status ForEach(absl::string_view prefix, const std::function<absl::Status(const StoreRow&)>& visit) override {
    const rocksdb::Slice start(prefix.data(), prefix.size());
    const std::unique_ptr<rocksdb::Iterator> iterator(database_->NewIterator(rocksdb::ReadOptions()));
    for (iterator->Seek(start); iterator->Valid() && iterator->key().starts_with(start); iterator->Next()) {
      absl::Status visited = visit({iterator->key().ToString(), iterator->value().ToString()});
      if (!visited.ok()) return visited;
    }
    return iterator->status().ok() ? absl::OkStatus() : Explain(directory_, iterator->status());
  }

  absl::Status VerifyTables() override {
    rocksdb::Status status = database_->VerifyChecksum(rocksdb::ReadOptions());
    // Tables of earlier versions have none.
    if (status.ok()) status = database_->VerifyFileChecksums(rocksdb::ReadOptions());
    if (!status.ok()) return Explain(directory_, status);
    return StoreHolder(directory_) == 0 ? VerifyUnnamedTables() : absl::OkStatus();
  }

 private:
  // A killed coordinator leaves unfinished tables behind, whose rows are in the log or in other tables as well.
  absl::Status VerifyUnnamedTables() {
    std::vector<rocksdb::LiveFileMetaData> live;
    database_->GetLiveFilesMetaData(&live);
    std::set<std::string> named;
    for (const rocksdb::LiveFileMetaData& file : live) named.insert(file.name.substr(file.name.rfind('/') + 1));
    absl::StatusOr<std::set<std::string>> tables = FilesOfKind(directory_, ".sst");
    if (!tables.ok()) return tables.status();
    for (const std::string& table : *tables) {
      if (named.count(table) > 0) continue;
      if (absl::Status status = VerifyUnnamed(table); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status VerifyUnnamed(const std::string& table) {
    rocksdb::SstFileReader reader((rocksdb::Options()));
    // One that cannot be opened was never finished.
    if (!reader.Open(absl::StrCat(directory_, "/", table)).ok()) return absl::OkStatus();
    const std::unique_ptr<rocksdb::Iterator> row(reader.NewIterator(rocksdb::ReadOptions()));
    for (row->SeekToFirst(); row->Valid(); row->Next()) {
      std::string value;
      if (!database_->Get(rocksdb::ReadOptions(), row->key(), &value).IsNotFound()) continue;
      return absl::DataLossError(absl::StrCat("store ", directory_, ": table ", table, " has row ",
                                              absl::Utf8SafeCHexEscape(row->key().ToString()),
                                              ", and the store does not name the table and lacks the row"));
    }
    return absl::OkStatus();
  }

  const std::string directory_;
  std::unique_ptr<rocksdb::DB> database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OfflineStore>> OfflineStore::Open(const std::string& directory, LogEnd log_end) {
  if (absl::Status readable = CheckReadable(directory); !readable.ok()) return readable;
  rocksdb::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // A row is in a table that the manifest names, or in a log; a log is deleted once its table is in the manifest. So
    // if the manifest was read before that moment and the log after it, rows are missing without an error: what was
    // opened counts only if the logs of the beginning are still there then. From then on all of it is in memory, or in
    // open files.
    const absl::StatusOr<std::set<std::string>> before = FilesOfKind(directory, ".log");
    if (!before.ok()) return before.status();
    auto reader = std::make_unique<Reader>(directory);
    status = reader->Open(log_end);
    const absl::StatusOr<std::set<std::string>> after = FilesOfKind(directory, ".log");
    if (!after.ok()) return after.status();
    if (status.ok() && std::includes(after->begin(), after->end(), before->begin(), before->end())) return reader;
  }
  if (!status.ok()) return Explain(directory, status);
  return absl::UnavailableError(
      absl::StrCat("store ", directory, " was changed by its coordinator during each of ", kAttempts, " readings"));
}

pid_t StoreHolder(const std::string& directory) {
  const int file = open(absl::StrCat(directory, "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return 0;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool asked = fcntl(file, F_GETLK, &lock) == 0;
  close(file);
  return asked && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

absl::StatusOr<std::vector<StoreRow>> ReadRowsOffline(const std::string& directory, absl::string_view prefix) {
  const absl::StatusOr<std::unique_ptr<OfflineStore>> store = OfflineStore::Open(directory);
  if (!store.ok()) return store.status();
  std::vector<StoreRow> rows;
  absl::Status read = (*store)->ForEach(prefix, [&](const StoreRow& row) {
    rows.push_back(row);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return rows;
}

}  // namespace farandole
