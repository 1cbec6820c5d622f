#ifndef FARANDOLE_SERVER_JOB_LOBBY_H_
#define FARANDOLE_SERVER_JOB_LOBBY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/event.h"

namespace farandole {

// The workers that wait for the job's next epoch. The first one to join sets how many are wanted, how long to wait and
// the stall limit; when the lobby empties, the next one does so anew. Owned by its Job.
class Lobby {
 public:
  struct Worker {
    v1::Member member;
    uint32_t launch_index = 0;
    absl::Time joined;
    // 0: not opened yet.
    StreamId stream = 0;
  };

  // One message tells each member of all; gRPC takes 4 MiB.
  static constexpr size_t kMostMemberBytes = 3 << 20;
  static constexpr absl::Duration kWaitingInterval = absl::Seconds(10);

  Lobby(uint32_t max_workers, absl::Duration open_limit) : max_workers_(max_workers), open_limit_(open_limit) {}

  // Admits a worker whose request is within the proto's bounds; the same incarnation again changes nothing.
  //   INVALID_ARGUMENT    another wanted_size than that of those who wait (both named)
  //   RESOURCE_EXHAUSTED  more than max_workers are wanted, or the members' descriptions exceed kMostMemberBytes
  //   ALREADY_EXISTS      all wanted workers have joined
  absl::Status Join(const v1::JoinRequest& request, absl::Time now);
  // Gives `incarnation`, which must be here, its stream; the one that it had before, or 0.
  StreamId Open(const std::string& incarnation, StreamId stream);
  // `incarnation` no longer waits.
  void Remove(const std::string& incarnation);
  // Takes out those that joined and did not open their stream within the open limit; whom, as sentences.
  std::vector<std::string> RemoveUnopened(absl::Time now);
  // All of them, in the order of joining; the lobby is empty and unconfigured afterwards.
  std::vector<Worker> Take();

  bool Has(const std::string& incarnation) const { return order_of_.contains(incarnation); }
  // `incarnation` must be here.
  const Worker& Get(const std::string& incarnation) const { return workers_.at(order_of_.at(incarnation)); }
  bool IsEmpty() const { return workers_.empty(); }
  // All wanted workers have joined and opened their streams.
  bool IsComplete() const;
  size_t size() const { return workers_.size(); }
  uint32_t wanted_size() const { return wanted_size_; }
  absl::Duration stall_warning() const { return stall_warning_; }
  // By order of joining.
  const absl::btree_map<uint64_t, Worker>& workers() const { return workers_; }

  // For whom it waits: "waits for 1 of 2 workers: joined is worker 4711 on host a".
  std::string WaitingSentence() const;
  // What to say when it waited in vain: "only 1 of 2 workers joined within 60 s: worker 4711 on host a".
  std::string TimeoutSentence() const;
  // When it will have waited in vain; InfiniteFuture: nobody has joined. Stays when all have gone away again.
  absl::Time Timeout() const { return timeout_at_; }
  // From `now` on, waits for as long as `wait` for somebody to come; only where nobody has joined.
  void Await(absl::Time now, absl::Duration wait, uint32_t wanted_size);
  // Whether those who wait must be told again now; moves the time on.
  bool IsNoticeDue(absl::Time now);
  // The earliest of: the timeout, the next notice, the open limit of somebody.
  absl::Time Deadline() const;

 private:
  absl::Time OpenDeadline() const;
  // "worker 4711 on host a, worker 4712 on host b (its stream is not open yet)", at most eight and a count.
  std::string NameWorkers() const;

  const uint32_t max_workers_;
  const absl::Duration open_limit_;
  uint32_t wanted_size_ = 0;
  absl::Duration stall_warning_;
  absl::Duration timeout_;
  absl::Time timeout_at_ = absl::InfiniteFuture();
  absl::Time notice_at_ = absl::InfiniteFuture();
  uint64_t joins_ = 0;
  size_t member_bytes_ = 0;
  absl::btree_map<uint64_t, Worker> workers_;
  absl::flat_hash_map<std::string, uint64_t> order_of_;
  // Orders of those without a stream; the first has waited longest.
  absl::btree_map<uint64_t, absl::Time> unopened_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_LOBBY_H_
