#ifndef FARANDOLE_SERVER_STORE_STORE_H_
#define FARANDOLE_SERVER_STORE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace farandole {

// Most operations and most bytes (keys and values together) of one batch; etcd's limits, so that any batch fits there.
inline constexpr size_t kMaxBatchOperations = 128;
inline constexpr size_t kMaxBatchBytes = 1 << 20;

// Where it lies in a coordinator's state directory.
inline constexpr char kStoreFolder[] = "store";

struct StoreRow {
  std::string key;
  std::string value;
};

// Their keys and values together.
inline size_t BytesOf(absl::Span<const StoreRow> rows) {
  size_t bytes = 0;
  for (const StoreRow& row : rows) bytes += row.key.size() + row.value.size();
  return bytes;
}

// Rows to write and keys to delete, all or none of them. Deletes are applied first.
struct StoreBatch {
  std::vector<std::string> deletes;
  std::vector<StoreRow> puts;
  // Also deletes the owner's own row, so that nothing in the store tells of it any more. Revisions stay unique even so.
  bool releases_owner = false;
  // Where the store cannot write, the batch waits until it can, and so do the owner's later ones. Otherwise it fails.
  bool is_patient = false;
  bool empty() const { return deletes.empty() && puts.empty() && !releases_owner; }
};

inline size_t BytesOf(const StoreBatch& batch) {
  size_t bytes = BytesOf(batch.puts);
  for (const std::string& key : batch.deletes) bytes += key.size();
  return bytes;
}

// The answer of AcquireRows: only a Commit with this revision can change the rows of the owner from now on.
struct AcquiredRows {
  uint64_t owner_revision = 0;
  std::vector<StoreRow> rows;
};

// Durable, ordered key-value rows. All calls may come from any thread and return at once; `done` is called exactly
// once, on a thread of the store, and must not block. Calls made before destruction are completed (with ABORTED if they
// were not carried out).
//
// An owner is a name (a job) that one coordinator holds at a time. Acquire makes a new, greater revision of it; a
// Commit that carries an older revision is refused, so that a coordinator which lost a job cannot write for it any
// more.
class Store {
 public:
  virtual ~Store() = default;

  // Takes `owner` over and gives its new revision (>= 1), durable before `done`.
  // UNAVAILABLE: the store cannot write (the text says why, e.g. a full disk).
  virtual void Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) = 0;

  // As Acquire, and reads rows in the same call: first those of `keys` that exist, then those whose key starts with one
  // of `prefixes`, in this order. Other calls wait for some milliseconds of reading only, and tenants (what is before
  // the '/' of an owner's name) have their rows read in turn. UNAVAILABLE also: the store cannot be read.
  virtual void AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                           std::function<void(absl::StatusOr<AcquiredRows>)> done) = 0;

  // Writes the batch durably, if `owner_revision` is still the revision of `owner`. Commits of one owner take effect in
  // the order of the calls; commits of several owners share one write to disk. Tenants take turns: one that has queued
  // many megabytes holds up another one's commit for one write, not for all of its own.
  //   FAILED_PRECONDITION  stale owner_revision (both named): drop the job
  //   INVALID_ARGUMENT     the batch exceeds a bound (named, with both values), or names a key of the store's own
  //   UNAVAILABLE          the store cannot write, or an earlier commit of this revision failed (its error is quoted);
  //                        a patient batch fails so only after EndPatience
  // After INVALID_ARGUMENT or UNAVAILABLE all later commits of the owner fail until it is acquired anew, so that what
  // is durable is always a prefix of what was asked for.
  virtual void Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
                      std::function<void(absl::Status)> done) = 0;

  // All rows whose key starts with `prefix`, in the order of the keys, as of some moment after all earlier commits.
  virtual void Scan(std::string prefix, std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) = 0;
  // The same, but only rows behind the key `after`, and at most `most` of them.
  virtual void ScanPage(std::string prefix, std::string after, size_t most,
                        std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) = 0;

  // About how many bytes the rows take whose key starts with one of `prefixes`, as they lie on disk: rows that were
  // replaced or deleted may count for a while.
  virtual void Measure(std::vector<std::string> prefixes, std::function<void(absl::StatusOr<uint64_t>)> done) = 0;

  // From now on no batch is patient; those that wait fail, if they cannot be written now.
  virtual void EndPatience() {}
  // Why nothing can be written, and since when: a sentence for people. "": all is well.
  virtual std::string Trouble() const { return ""; }
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_STORE_H_
