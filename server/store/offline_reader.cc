#include "server/store/offline_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"

namespace farandole {
namespace {

// A coordinator under full load moves its log into a table every few hundred milliseconds, a reading takes a tenth of
// that.
constexpr int kAttempts = 20;

// RocksDB writes a log file wherever it opens a database, unless it is given one.
class SilentLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

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

// The write-ahead logs that are there.
absl::StatusOr<std::set<std::string>> Logs(const std::string& directory) {
  std::set<std::string> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".log") logs.insert(entry.path().filename().string());
  }
  if (!error) return logs;
  return absl::UnavailableError(absl::StrCat("cannot read directory ", directory, ": ", error.message()));
}

rocksdb::Status Read(const std::string& directory, absl::string_view prefix, std::vector<StoreRow>* rows) {
  rocksdb::Options options;
  options.info_log = std::make_shared<SilentLog>();
  // RocksDB reads beside a writer by a secondary instance; it wants all files kept open.
  options.max_open_files = -1;
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenAsSecondary(options, directory, directory, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<rocksdb::DB> database(opened);
  const rocksdb::Slice start(prefix.data(), prefix.size());
  const std::unique_ptr<rocksdb::Iterator> iterator(database->NewIterator(rocksdb::ReadOptions()));
  for (iterator->Seek(start); iterator->Valid() && iterator->key().starts_with(start); iterator->Next()) {
    rows->push_back({iterator->key().ToString(), iterator->value().ToString()});
  }
  return iterator->status();
}

}  // namespace

absl::StatusOr<std::vector<StoreRow>> ReadRowsOffline(const std::string& directory, absl::string_view prefix) {
  if (absl::Status readable = CheckReadable(directory); !readable.ok()) return readable;
  rocksdb::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // A row is in a table that the manifest names, or in a log; a log is deleted once its table is in the manifest. So
    // if the manifest was read before that moment and the log after it, rows are missing without an error: the rows
    // read count only if the logs of the beginning are still there at the end.
    const absl::StatusOr<std::set<std::string>> before = Logs(directory);
    if (!before.ok()) return before.status();
    std::vector<StoreRow> rows;
    status = Read(directory, prefix, &rows);
    const absl::StatusOr<std::set<std::string>> after = Logs(directory);
    if (!after.ok()) return after.status();
    if (status.ok() && std::includes(after->begin(), after->end(), before->begin(), before->end())) return rows;
  }
  if (!status.ok()) return Explain(directory, status);
  return absl::UnavailableError(
      absl::StrCat("store ", directory, " was changed by its coordinator during each of ", kAttempts, " readings"));
}

}  // namespace farandole
