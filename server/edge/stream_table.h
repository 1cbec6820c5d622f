#ifndef FARANDOLE_SERVER_EDGE_STREAM_TABLE_H_
#define FARANDOLE_SERVER_EDGE_STREAM_TABLE_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/job/rules/event.h"

namespace farandole {

class AttachStream;

// The workers' streams that are open, by number. Owned by the output router; any thread.
class StreamTable {
 public:
  // Takes a stream in; shared with gRPC, which calls it until it is done, and with threads that are sending on it.
  // RESOURCE_EXHAUSTED: the tenant has `max_streams` open already (both named).
  absl::StatusOr<StreamId> Add(const std::string& tenant, size_t max_streams, std::shared_ptr<AttachStream> stream);
  void Remove(StreamId id);
  // Null: it is gone.
  std::shared_ptr<AttachStream> Find(StreamId id) const;

  void CloseAll(const absl::Status& status);
  // Ends the streams whose tokens have ended.
  void CheckStanding();

  // Returns when no stream is open or the deadline (of SteadyNow) has come; true: none is open. A second call with an
  // earlier deadline ends the first.
  bool WaitUntilEmpty(absl::Time deadline);

 private:
  std::vector<std::shared_ptr<AttachStream>> All() const;

  struct Entry {
    std::string tenant;
    std::shared_ptr<AttachStream> stream;
  };

  bool IsEmpty() const;

  mutable absl::Mutex mutex_;
  StreamId last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<StreamId, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> count_by_tenant_ ABSL_GUARDED_BY(mutex_);
  // The standard library's, because its timed waits do not go by the wall clock. Taken before mutex_.
  std::mutex waiting_mutex_;
  std::condition_variable changed_;
  absl::Time deadline_ ABSL_GUARDED_BY(waiting_mutex_) = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_STREAM_TABLE_H_
