#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_FABRIC_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_FABRIC_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/core/doorbell.h"
#include "worker/transport/testing/inproc_queue.h"

namespace farandole {

// The memory that the ranks of one epoch share when all are in one process: a queue of bytes for each pair that talks,
// a doorbell for each rank, and the reason why the epoch ended, if it has. Owned by the test or simulation that makes
// the ranks; outlives their transports.
class InprocFabric {
 public:
  explicit InprocFabric(int size);
  ~InprocFabric();
  InprocFabric(const InprocFabric&) = delete;
  InprocFabric& operator=(const InprocFabric&) = delete;

  int size() const { return size_; }
  // The bell of a rank, which other parts of the rank ring too. Any thread.
  Doorbell& doorbell(int rank) { return doorbells_[rank]; }

  // The queue between two ranks; made by the first call of its writer. The thread that has rank `from`'s engine role.
  InprocQueue& WriterQueue(int from, int to);
  // Null as long as the writer has not made it. Any thread.
  InprocQueue* ReaderQueue(int from, int to) const;

  // Ends the epoch for all ranks and wakes them; the first reason stays. `reason` is an error. Any thread.
  void Abort(const absl::Status& reason);
  // OK, or the reason of the first Abort. Any thread.
  absl::Status status() const;

 private:
  std::atomic<InprocQueue*>& Slot(int from, int to) const;

  const int size_;
  const std::unique_ptr<Doorbell[]> doorbells_;
  // By writer, then reader; owned, null until used.
  const std::unique_ptr<std::atomic<InprocQueue*>[]> queues_;

  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_. Not a Status: Abseil frees a shared one behind the back of the thread sanitizer.
  absl::StatusCode code_ = absl::StatusCode::kOk;
  std::string message_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_INPROC_FABRIC_H_
