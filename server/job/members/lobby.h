#ifndef FARANDOLE_SERVER_JOB_MEMBERS_LOBBY_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_LOBBY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/rules/event.h"

namespace farandole {

// The workers that wait for the job's next epoch. The first one to join sets how many are wanted, how long to wait and
// the stall limit; when the lobby empties, the next one does so anew. In an elastic job any number may wait. Owned by
// its Job.
class Lobby {
 public:
  struct Worker {
    v1::Member member;
    uint32_t launch_index = 0;
    absl::Time joined;
    // 0: not opened yet.
    StreamId stream = 0;
    // Of a survivor: its rank in the last epoch.
    std::optional<uint32_t> old_rank;
    // Its process has been in an epoch before, and holds the state that it has learnt there.
    bool has_history = false;
  };

  // One message lists all members to each of them, and gRPC takes at most 4 MiB.
  static constexpr size_t kMostMemberBytes = 3 << 20;
  static constexpr absl::Duration kWaitingInterval = absl::Seconds(10);

  // From its Join until it must have opened its stream a worker has `open_limit`; in an elastic job, where survivors
  // may wait for it, `elastic_open_limit`.
  Lobby(uint32_t max_workers, absl::Duration open_limit, absl::Duration elastic_open_limit)
      : max_workers_(max_workers), open_limit_(open_limit), elastic_open_limit_(elastic_open_limit) {}

  // Admits a worker whose request is within the proto's bounds; the same incarnation again changes nothing.
  //   INVALID_ARGUMENT    another wanted_size, min_size or max_size than that of those who wait (both named)
  //   RESOURCE_EXHAUSTED  more than max_workers are wanted or wait, or the members' descriptions exceed
  //                       kMostMemberBytes
  //   ALREADY_EXISTS      all wanted workers have joined, and the job is not elastic
  absl::Status Join(const v1::JoinRequest& request, std::optional<uint32_t> old_rank, absl::Time now);
  // Gives `incarnation`, which must be here, its stream; the one that it had before, or 0.
  StreamId Open(const std::string& incarnation, StreamId stream);
  // `incarnation` no longer waits.
  void Remove(const std::string& incarnation);
  // Takes out those that joined and did not open their stream within the open limit.
  std::vector<Worker> RemoveUnopened(absl::Time now);
  // All of them, in the order of joining; the lobby is empty and unconfigured afterwards.
  std::vector<Worker> Take();
  // Those with a stream, in the order of joining: all survivors, and of the others the first by launch index and order
  // of joining, `most` together. The others stay.
  std::vector<Worker> TakeOpened(size_t most);
  // The workers from the host of this name.
  std::vector<std::string> IncarnationsOn(const std::string& hostname) const;
  // Null: none has this launch index, or had this rank in the last epoch.
  const Worker* FindLaunched(uint32_t launch_index) const;
  const Worker* FindSurvivor(uint32_t old_rank) const;
  absl::Duration open_limit() const { return elastic_.has_value() ? elastic_open_limit_ : open_limit_; }

  bool Has(const std::string& incarnation) const { return order_of_.contains(incarnation); }
  // `incarnation` must be here.
  const Worker& Get(const std::string& incarnation) const { return workers_.at(order_of_.at(incarnation)); }
  bool IsEmpty() const { return workers_.empty(); }
  // All wanted workers have joined and opened their streams.
  bool IsComplete() const;
  // The first one has waited for as long as it wants to.
  bool IsExpired() const { return is_expired_; }
  size_t size() const { return workers_.size(); }
  // Those with a stream.
  size_t opened() const { return workers_.size() - unopened_.size(); }
  // Those with a stream that are no survivors.
  size_t newcomers() const { return opened() - opened_survivors_; }
  size_t unopened_survivors() const { return survivors_.size() - opened_survivors_; }
  uint32_t wanted_size() const { return wanted_size_; }
  absl::Duration stall_warning() const { return stall_warning_; }
  const std::optional<v1::Elastic>& elastic() const { return elastic_; }
  // By order of joining.
  const absl::btree_map<uint64_t, Worker>& workers() const { return workers_; }

  // The workers that it waits for: "waits for 1 of 2 workers: joined is worker 4711 on host a".
  std::string WaitingSentence() const;
  // The sentence after a wait in vain: "only 1 of 2 workers joined within 60 s: worker 4711 on host a".
  std::string TimeoutSentence() const;
  // "worker 4711 on host a, worker 4712 on host b (its stream is not open yet)", at most eight and a count.
  std::string NameWorkers() const;
  // When the join timeout ends; InfiniteFuture: no worker has joined. Unchanged when all workers leave the lobby again.
  absl::Time Timeout() const { return timeout_at_; }
  // It waits until `at` at the latest, unless its time has passed already.
  void HastenTimeout(absl::Time at);
  // The timeout has passed, and the waiting workers go on to wait.
  void Expire();
  // From `now` on, waits for as long as `wait` for a worker to come; only if none has joined.
  void Await(absl::Time now, absl::Duration wait, uint32_t wanted_size);
  // Whether the waiting workers must get a notice now; moves the time on.
  bool IsNoticeDue(absl::Time now);
  // The earliest of: the timeout, the next notice, a worker's limit to open its stream.
  absl::Time Deadline() const;

 private:
  using Workers = absl::btree_map<uint64_t, Worker>;

  absl::Status CheckTerms(const v1::JoinRequest& request) const;
  void SetTerms(const v1::JoinRequest& request, absl::Time now);
  // The worker there is not here any more.
  Worker Extract(Workers::iterator it);
  absl::Time OpenDeadline() const;

  const uint32_t max_workers_;
  const absl::Duration open_limit_;
  const absl::Duration elastic_open_limit_;
  uint32_t wanted_size_ = 0;
  // Set: the job is elastic.
  std::optional<v1::Elastic> elastic_;
  absl::Duration stall_warning_;
  absl::Duration timeout_;
  absl::Time timeout_at_ = absl::InfiniteFuture();
  absl::Time notice_at_ = absl::InfiniteFuture();
  bool is_expired_ = false;
  uint64_t joins_ = 0;
  size_t member_bytes_ = 0;
  // Orders of survivors by their old rank.
  absl::flat_hash_map<uint32_t, uint64_t> survivors_;
  size_t opened_survivors_ = 0;
  Workers workers_;
  absl::flat_hash_map<std::string, uint64_t> order_of_;
  // Orders of those without a stream; the first has waited longest.
  absl::btree_map<uint64_t, absl::Time> unopened_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_LOBBY_H_
