#ifndef FARANDOLE_SERVER_QUEUE_QUEUE_ROWS_H_
#define FARANDOLE_SERVER_QUEUE_QUEUE_ROWS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/registry/job_key.h"
#include "server/store/store.h"

namespace farandole {

// The rows of the launches that wait, in the store under the owner "queue". It writes in the background,
// the newest of each row; while the store cannot write, as on a full disk, it tries again, and forgets nothing. Owned
// by LaunchQueue; any thread.
class QueueRows {
 public:
  // `on_change` is called after each write, or failure of one, with no lock held, on a thread of the store.
  QueueRows(Store* store, std::function<void()> on_change) : store_(store), on_change_(std::move(on_change)) {}
  // Waits for the write that it is at.
  ~QueueRows();

  // All rows. Blocks. Errors: the store's, DATA_LOSS if one cannot be parsed.
  absl::StatusOr<std::vector<v1::QueuedRecord>> Load();
  void Put(const JobKey& key, const v1::QueuedRecord& record);
  void Delete(const JobKey& key);
  // The row is on disk, as it was asked for first, or later.
  bool IsKept(const JobKey& key) const;
  // Why the last write failed; OK: it did not.
  absl::Status failure() const;
  // When to call Write next; InfiniteFuture: there is nothing to write.
  absl::Time next_try() const;
  // Writes what is to be written, if no write is under way.
  void Write();
  // Waits until no write is under way, and begins none any more.
  void Stop();

 private:
  struct Row {
    // nullopt: it is deleted.
    std::optional<std::string> value;
    uint64_t version = 0;
  };

  void OnAcquired(absl::StatusOr<uint64_t> revision);
  void OnWritten(const std::map<std::string, Row>& written, const absl::Status& status);
  // Called without the lock.
  void End(const absl::Status& status);

  Store* const store_;
  const std::function<void()> on_change_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  // To be written.
  std::map<std::string, Row> due_ ABSL_GUARDED_BY(mutex_);
  // On disk, as far as is known.
  std::set<std::string> kept_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  // 0: to be acquired (anew, after a failed commit).
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_telling_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Time try_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_QUEUE_ROWS_H_
