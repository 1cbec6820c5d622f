#include "server/backup/state_backup.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/version.h"
#include "checkpoint/durable_file.h"
#include "server/backup/row_check.h"
#include "server/registry/row_kinds.h"
#include "server/state_directory.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_store.h"
#include "server/store_version.h"

namespace farandole {
namespace {

namespace fs = std::filesystem;

constexpr char kSchemaKey[] = "meta/schema";
// The files of a state directory that a backup has beside the rows.
constexpr const char* kFiles[] = {"token", "key"};
constexpr size_t kMostFileBytes = 4096;
constexpr size_t kMostBroken = 100;

std::string StoreOf(const std::string& state_dir) { return absl::StrCat(state_dir, "/", kStoreFolder); }

// With the way out where a loss of power, and no damage, may be the reason.
absl::StatusOr<std::unique_ptr<OfflineStore>> OpenWhole(const std::string& state_dir) {
  const std::string directory = StoreOf(state_dir);
  absl::StatusOr<std::unique_ptr<OfflineStore>> store =
      OfflineStore::Open(directory, OfflineStore::LogEnd::kMustBeWhole);
  if (store.ok() || !absl::IsDataLoss(store.status())) return store;
  if (StoreHolder(directory) != 0 || !OfflineStore::Open(directory).ok()) return store;
  return absl::DataLossError(absl::StrCat(
      store.status().message(),
      "; after a loss of power this is no damage, but the beginning of a write that nobody was told was done: the next "
      "start of the coordinator drops all behind that place"));
}

absl::StatusOr<uint32_t> SchemaOf(OfflineStore* store) {
  v1::SchemaRecord schema;
  const absl::Status read = store->ForEach(kSchemaKey, [&](const StoreRow& row) {
    return schema.ParseFromString(row.value)
               ? absl::OkStatus()
               : absl::DataLossError(absl::StrCat("row ", row.key, " is not a SchemaRecord"));
  });
  if (!read.ok()) return read;
  return schema.version();
}

absl::Status AddRows(OfflineStore* store, BackupWriter* writer, BackupFacts* facts) {
  return store->ForEach("", [&](const StoreRow& row) {
    v1::BackupPart part;
    part.mutable_row()->set_key(row.key);
    part.mutable_row()->set_value(row.value);
    ++facts->rows;
    facts->bytes += row.key.size() + row.value.size();
    return writer->Add(part);
  });
}

absl::StatusOr<uint64_t> AddFiles(const std::string& state_dir, BackupWriter* writer) {
  uint64_t files = 0;
  for (const char* name : kFiles) {
    absl::StatusOr<std::string> content = ReadSmallFile(absl::StrCat(state_dir, "/", name), kMostFileBytes);
    if (absl::IsNotFound(content.status())) continue;
    if (!content.ok()) return content.status();
    v1::BackupPart part;
    part.mutable_file()->set_name(name);
    part.mutable_file()->set_content(*std::move(content));
    if (absl::Status added = writer->Add(part); !added.ok()) return added;
    ++files;
  }
  return files;
}

// All that a backup has goes into the folder `restoring`.
absl::StatusOr<BackupFacts> Unpack(const std::string& file, const std::string& folder) {
  absl::StatusOr<std::unique_ptr<RocksdbFiller>> filler = RocksdbFiller::Create(StoreOf(folder));
  if (!filler.ok()) return filler.status();
  absl::StatusOr<BackupFacts> facts = ReadBackup(file, [&](const v1::BackupPart& part) {
    if (part.has_row()) return (*filler)->Add({part.row().key(), part.row().value()});
    for (const char* name : kFiles) {
      if (part.file().name() == name)
        return StateDirectory::WritePrivateFile(absl::StrCat(folder, "/", name), part.file().content());
    }
    return absl::DataLossError(absl::StrCat("backup ", file, " has a file that no state directory has"));
  });
  if (!facts.ok()) return facts;
  absl::Status finished = (*filler)->Finish();
  if (!finished.ok()) return finished;
  return facts;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : FileError(errno, "rename to", to);
}

// The store comes last, and the folder that keeps a coordinator from starting goes behind it.
absl::Status PutInPlace(const StateDirectory& directory) {
  const std::string folder = directory.restoring_path();
  if (absl::Status synced = SyncDirectory(folder); !synced.ok()) return synced;
  for (const char* name : {"token", "key", kStoreFolder}) {
    const std::string from = absl::StrCat(folder, "/", name);
    if (access(from.c_str(), F_OK) != 0 && errno == ENOENT) continue;
    if (absl::Status moved = Rename(from, absl::StrCat(directory.path(), "/", name)); !moved.ok()) return moved;
  }
  if (absl::Status synced = directory.Sync(); !synced.ok()) return synced;
  if (rmdir(folder.c_str()) != 0) return FileError(errno, "remove", folder);
  return directory.Sync();
}

}  // namespace

absl::StatusOr<StateFacts> DescribeState(const std::string& state_dir) {
  const std::string directory = StoreOf(state_dir);
  absl::StatusOr<std::unique_ptr<OfflineStore>> store = OfflineStore::Open(directory);
  if (!store.ok()) return store.status();
  StateFacts facts;
  const absl::StatusOr<uint32_t> schema = SchemaOf(store->get());
  if (!schema.ok()) return schema.status();
  facts.schema = *schema;
  absl::Status read = (*store)->ForEach("", [&](const StoreRow& row) {
    RowsOfKind& kind = facts.kinds[std::string(KindOfRow(row.key))];
    ++kind.rows;
    kind.bytes += row.key.size() + row.value.size();
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    // One that has vanished counts nothing.
    std::error_code vanished;
    const uintmax_t size = entry.file_size(vanished);
    if (!vanished) facts.disk_bytes += size;
  }
  struct statvfs disk = {};
  if (statvfs(directory.c_str(), &disk) == 0) facts.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  facts.holder = StoreHolder(directory);
  return facts;
}

absl::StatusOr<StateVerdict> CheckState(const std::string& state_dir) {
  absl::StatusOr<std::unique_ptr<OfflineStore>> store = OpenWhole(state_dir);
  if (!store.ok()) return store.status();
  if (absl::Status verified = (*store)->VerifyTables(); !verified.ok()) return verified;
  StateVerdict verdict;
  absl::Status read = (*store)->ForEach("", [&](const StoreRow& row) {
    ++verdict.rows;
    const absl::Status whole = CheckRow(row);
    if (!whole.ok() && verdict.broken.size() < kMostBroken) verdict.broken.emplace_back(whole.message());
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return verdict;
}

absl::StatusOr<BackupFacts> BackUpState(const std::string& state_dir, const std::string& file, absl::Time now) {
  absl::StatusOr<std::unique_ptr<OfflineStore>> store = OpenWhole(state_dir);
  if (!store.ok()) return store.status();
  // A table that cannot be read would make a backup that lacks its rows.
  if (absl::Status verified = (*store)->VerifyTables(); !verified.ok()) return verified;
  const absl::StatusOr<uint32_t> schema = SchemaOf(store->get());
  if (!schema.ok()) return schema.status();
  absl::StatusOr<std::unique_ptr<BackupWriter>> writer = BackupWriter::Create(file);
  if (!writer.ok()) return writer.status();
  BackupFacts facts;
  facts.head.set_schema(*schema);
  facts.head.set_version(kVersion);
  facts.head.set_made_unix_ms(absl::ToUnixMillis(now));
  v1::BackupPart head;
  *head.mutable_head() = facts.head;
  if (absl::Status added = (*writer)->Add(head); !added.ok()) return added;
  if (absl::Status added = AddRows(store->get(), writer->get(), &facts); !added.ok()) return added;
  const absl::StatusOr<uint64_t> files = AddFiles(state_dir, writer->get());
  if (!files.ok()) return files.status();
  v1::BackupPart end;
  end.mutable_end()->set_rows(facts.rows);
  end.mutable_end()->set_files(*files);
  if (absl::Status added = (*writer)->Add(end); !added.ok()) return added;
  absl::StatusOr<std::string> sha256 = (*writer)->Finish();
  if (!sha256.ok()) return sha256.status();
  facts.sha256 = *std::move(sha256);
  return facts;
}

absl::StatusOr<BackupFacts> RestoreState(const std::string& file, const std::string& state_dir) {
  const absl::StatusOr<BackupFacts> checked = ReadBackup(file, nullptr);
  if (!checked.ok()) return checked.status();
  if (checked->head.schema() > kStoreSchema) {
    return absl::FailedPreconditionError(absl::StrCat("backup ", file, " has rows of version ", checked->head.schema(),
                                                      ", of farandole ", checked->head.version(), ", and this one (",
                                                      kVersion, ") knows ", kStoreSchema,
                                                      " at most: restore it with that version, or a later one"));
  }
  absl::StatusOr<StateDirectory> directory = StateDirectory::OpenEmpty(state_dir);
  if (!directory.ok()) return directory.status();
  const std::string folder = directory->restoring_path();
  // Of one that was cut off; its folder goes last, since it keeps a coordinator from starting.
  for (const std::string& left : {directory->store_path(), folder}) {
    std::error_code error;
    fs::remove_all(left, error);
    if (error) return FileError(error.value(), "remove", left);
  }
  if (absl::Status made = MakeDirectories(folder, 0700); !made.ok()) return made;
  absl::StatusOr<BackupFacts> facts = Unpack(file, folder);
  if (!facts.ok()) return facts;
  if (absl::Status placed = PutInPlace(*directory); !placed.ok()) return placed;
  return facts;
}

}  // namespace farandole
