#ifndef FARANDOLE_SERVER_STORE_GROUP_COMMIT_STORE_H_
#define FARANDOLE_SERVER_STORE_GROUP_COMMIT_STORE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/store.h"
#include "server/store/store_medium.h"

namespace farandole {

// The one implementation of Store's semantics, over any medium. Owned by the coordinator.
//
// One thread takes the calls that are queued, of each tenant a megabyte, checks them, and writes their rows as one
// write to the medium (at most 16 MiB at a time); then it completes them in the order of the calls, and takes the next
// ones. While the medium cannot be written, patient batches wait, and it tries again each second. So the number of
// writes to disk follows the disk's speed, not the number of jobs. The revision of owner NAME is the row "owner/NAME"
// (decimal); the greatest one that was released is the row "owner/".
//
// The rows of an acquisition may be many megabytes. They are read behind the others' completions, and once a megabyte
// was read, the calls that came meanwhile are next. Tenants take turns: the part of an owner's name before the '/'
// tells the tenant.
//
// The queue has no bound of its own: callers keep a bounded number of calls and of bytes unfinished (JobRunner does).
class GroupCommitStore : public Store {
 public:
  // Reads the owners' revisions from `medium`; the medium's error where it cannot be read.
  static absl::StatusOr<std::unique_ptr<GroupCommitStore>> Start(std::unique_ptr<StoreMedium> medium);
  // Carries out and completes all queued calls.
  ~GroupCommitStore() override;

  void Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) override;
  void AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                   std::function<void(absl::StatusOr<AcquiredRows>)> done) override;
  void Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
              std::function<void(absl::Status)> done) override;
  void Scan(std::string prefix, std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override;
  void ScanPage(std::string prefix, std::string after, size_t most,
                std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) override;
  void Measure(std::vector<std::string> prefixes, std::function<void(absl::StatusOr<uint64_t>)> done) override;
  void EndPatience() override;
  std::string Trouble() const override;

 private:
  struct AcquireCall {
    std::string owner;
    std::vector<std::string> keys;
    std::vector<std::string> prefixes;
    std::function<void(absl::StatusOr<AcquiredRows>)> done;
  };
  struct CommitCall {
    std::string owner;
    uint64_t owner_revision;
    StoreBatch batch;
    std::function<void(absl::Status)> done;
  };
  struct ScanCall {
    std::string prefix;
    std::string after;
    size_t most;
    std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done;
  };
  struct MeasureCall {
    std::vector<std::string> prefixes;
    std::function<void(absl::StatusOr<uint64_t>)> done;
  };
  using Call = std::variant<AcquireCall, CommitCall, ScanCall, MeasureCall>;

  // The rows of an acquisition whose revision is durable, as far as they have been read.
  struct ReadCall {
    std::vector<std::string> keys;
    std::vector<std::string> prefixes;
    std::function<void(absl::StatusOr<AcquiredRows>)> done;
    AcquiredRows acquired;
    // Those of so many prefixes, and of the next one up to this key.
    size_t prefixes_read = 0;
    std::string last_key = {};
  };

  // A call of a group: the batch that it has there, which its owner does not get over if it fails; -1: none.
  struct Entry {
    int batch = -1;
    std::string owner;
    std::function<void(const absl::Status&)> complete;
  };
  // One write that is being gathered, and the calls in their order.
  struct Group {
    std::vector<StoreBatch> batches;
    size_t bytes = 0;
    std::vector<Entry> entries;

    void Add(StoreBatch batch, size_t batch_bytes, std::string owner,
             std::function<void(const absl::Status&)> complete);
  };

  explicit GroupCommitStore(std::unique_ptr<StoreMedium> medium);

  void Enqueue(Call call);
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty() || !waiting_.empty() || !reads_.empty() || is_patient_ == patience_ended_;
  }

  // The thread's own.
  absl::Status LoadRevisions();
  // Carries out the calls that wait, of each tenant some.
  void TakeTurns();
  void Take(AcquireCall call, Group* group);
  void Take(CommitCall call, Group* group);
  void Take(ScanCall call, Group* group);
  void Take(MeasureCall call, Group* group);
  // Carries out some of reads_.
  void ReadSome();
  // Reads on, some milliseconds. Whether that was all.
  absl::StatusOr<bool> ReadPiece(ReadCall* call);
  absl::Status Admit(const CommitCall& call);
  // Adds to the batch what makes its owner known to nobody.
  void Release(const std::string& owner, StoreBatch* batch);
  void Write(Group* group);
  absl::Status WriteOrRecover(const Group& group);
  // Makes a medium that has failed writable, and writes what waits.
  absl::Status Recover();
  // Completes the group's entries. If the group failed, patient ones wait for the next attempt.
  void Settle(Group group, const absl::Status& status);
  // Nothing waits any more.
  void GiveUp();
  void ShowTrouble();

  const std::unique_ptr<StoreMedium> medium_;
  // In the order in which they came; a tenant's wait when it has had its turn.
  std::deque<Call> waiting_;
  absl::flat_hash_map<std::string, uint64_t> revisions_;
  // The greatest of an owner that was released: the next ones of all owners are greater.
  uint64_t released_ = 0;
  // The first error of each owner whose commit was refused or failed: nothing is written for it until it is acquired
  // anew.
  absl::flat_hash_map<std::string, absl::Status> failed_owners_;
  // Not OK: the last write failed and the medium has not recovered since.
  absl::Status failure_;
  absl::Time next_recovery_ = absl::InfinitePast();
  // Wait for the medium, the first one first, and their owners.
  std::deque<Group> held_;
  absl::flat_hash_set<std::string> held_owners_;
  bool is_patient_ = true;
  // By tenant, and whose turn was last.
  std::map<std::string, std::deque<ReadCall>> reads_;
  std::string last_turn_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Call> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool patience_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_GROUP_COMMIT_STORE_H_
