#ifndef FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_RUN_H_
#define FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/core/doorbell.h"
#include "worker/core/hosts.h"
#include "worker/transport/testing/conformance_batch.h"
#include "worker/transport/transport.h"

namespace farandole {

// All ranks of one epoch, in this process.
struct TransportSet {
  // The objects that the transports borrow, dropped after them. Has no other owner; it is a shared_ptr to forget the
  // type.
  std::shared_ptr<void> foundation;
  // By rank.
  std::vector<std::unique_ptr<Transport>> transports;
  // By rank; those that the transports ring.
  std::vector<Doorbell*> doorbells;
  // How ranks lie on hosts, where there are several.
  Hosts hosts;
  // Called before a rank sleeps at its bell; may be empty.
  std::function<void(int rank)> rest;
};

// Begins a collective on one rank.
using StartOperation = std::function<absl::StatusOr<std::unique_ptr<Operation>>(
    Transport& transport, const Collective& collective, BufferPool& pool)>;

// The transport's own way, and where it has none, the schedule that ChooseSchedule gives.
StartOperation StartAsEngine(const TransportSet& set);

// Advances an operation to its end as the engine of `rank` does: while nothing moves it yields `most_yields` times,
// then sleeps at the doorbell. Errors: those of the operation; DEADLINE_EXCEEDED after half a minute, as if no bell
// rang.
absl::Status Drive(Operation& operation, const TransportSet& set, int rank, int most_yields);

// Ends the epoch as the engines of all ranks do when they learn that it has ended. Any thread.
void AbortAll(TransportSet& set, const absl::Status& reason);

// Batches in the order of the log, each run by all its ranks, a thread for each rank of the epoch.
class ConformanceRun {
 public:
  // Makes all memory. `set` is borrowed.
  ConformanceRun(TransportSet& set, std::vector<ConformanceBatch> batches, StartOperation start);

  // Gives the first error of a rank. A rank that fails ends the epoch. INTERNAL if a rank leaves a barrier that another
  // has not come to.
  absl::Status Run();

  // By batch.
  const std::vector<std::unique_ptr<ConformanceMemory>>& memory() const { return memory_; }

 private:
  absl::Status RunRank(int rank);
  absl::Status RunBatch(int rank, size_t index, BufferPool& pool);

  TransportSet& set_;
  const std::vector<ConformanceBatch> batches_;
  const StartOperation start_;
  std::vector<std::unique_ptr<ConformanceMemory>> memory_;
  // By batch: the ranks that have begun it.
  std::vector<std::atomic<size_t>> begun_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TESTING_CONFORMANCE_RUN_H_
