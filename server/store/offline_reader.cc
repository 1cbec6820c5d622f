#include "server/store/offline_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"

namespace farandole {
namespace {

// The coordinator may delete a log or table between the moments when its name is read and when it is opened; what
// replaced it is found by the next attempt.
constexpr int kAttempts = 5;

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

rocksdb::Status Read(const std::string& directory, absl::string_view prefix, std::vector<StoreRow>* rows) {
  rocksdb::Options options;
  options.info_log = std::make_shared<SilentLog>();
  // A secondary instance is what RocksDB has for reading beside a writer; it wants all files kept open.
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
    std::vector<StoreRow> rows;
    status = Read(directory, prefix, &rows);
    if (status.ok()) return rows;
  }
  return Explain(directory, status);
}

}  // namespace farandole
