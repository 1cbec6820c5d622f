#ifndef FARANDOLE_SERVER_JOB_MEMBERS_ROSTER_H_
#define FARANDOLE_SERVER_JOB_MEMBERS_ROSTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/types.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/rules/event.h"

namespace farandole {

// The members of one epoch by rank: their streams, and when the coordinator last heard each. Owned by its RunningEpoch,
// and when that has ended, in an elastic job, by its Survivors.
//
// A live member is silent if, for the silence limit, neither its beat has advanced in any heartbeat, nor its own stream
// has had a message. The end of a stream is no death: it gives the member one more silence limit to send a sign of
// life.
class Roster {
 public:
  // In one sentence.
  static constexpr size_t kMostNamed = 8;

  struct Seat {
    v1::Member member;
    // 0: none is open.
    StreamId stream = 0;
    // When the coordinator last heard it. A member is watched for silence once it was here (see Watch).
    absl::Time heard;
    std::optional<uint64_t> beat;
    uint64_t batches = 0;
    bool left = false;
    // With `left`: to join again.
    bool returns = false;
    // Another member's program failed, and its Leave lists this rank as one that had left before.
    bool missed = false;
    // It is to leave, and not to join again.
    bool drained = false;
    // Why its last stream ended; "" while one is open.
    std::string stream_end;
    // Why it is counted as lost; "" if it is not.
    std::string lost;
    // Its last report on its GPU.
    std::optional<v1::Gpu> gpu;
  };
  // A member that is lost.
  struct Loss {
    uint32_t rank;
    // Why it was lost: "nothing was heard of it for 3 s; the limit is 3 s".
    std::string claim;
  };

  // No member is watched yet, none has a stream.
  Roster(const v1::Epoch& epoch, absl::Duration silence_limit);
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  size_t size() const { return seats_.size(); }
  const Seat& seat(uint32_t rank) const { return seats_[rank]; }
  std::optional<uint32_t> RankOf(const std::string& incarnation) const;
  std::optional<uint32_t> RankLaunched(uint32_t launch_index) const;
  // "rank 1 (worker 4711 on host a)".
  std::string Describe(uint32_t rank) const;

  // `stream` is now the member's; the one it had before, or 0. Watches the member.
  StreamId Attach(uint32_t rank, StreamId stream, absl::Time now);
  // The member's stream has ended, of which `evidence` tells why.
  void Detach(uint32_t rank, const std::string& evidence, absl::Time now);
  // The member's silence counts from now on; it was alive at `when`.
  void Watch(uint32_t rank, absl::Time when);
  // The member itself has said something, or was alive at `when` as others say.
  void Hear(uint32_t rank, absl::Time when);
  // So may have the other members of its host, for which it speaks.
  void HearHost(uint32_t rank, absl::Time when);
  // A heartbeat says this about a member, which is watched from the first one on.
  void Feel(const v1::Pulse& pulse, absl::Time now);
  // The member leaves in order; `returns`: to join again.
  void Leave(uint32_t rank, bool returns = false);
  void Miss(uint32_t rank) { seats_[rank].missed = true; }
  void Drain(uint32_t rank);
  // Takes the member's report on its GPU.
  void SetGpu(uint32_t rank, const v1::GpuStatus& status);
  // The member's silence does not count any more.
  void Unwatch(uint32_t rank);
  void MarkLost(uint32_t rank, const std::string& claim) { seats_[rank].lost = claim; }
  // No member counts as silent before `judged_from`.
  void Excuse(absl::Time judged_from) { judged_from_ = std::max(judged_from_, judged_from); }

  // The first of `count` ranks, named: "rank 1 (worker 4711 on host a), rank 2 (...)", at most eight and a count.
  std::string DescribeAll(const std::vector<uint32_t>& ranks, size_t count) const;
  // "rank 1 (...) was lost: CLAIM; rank 2 (...), rank 3 (...) were each lost: CLAIM".
  std::string DescribeLosses(std::vector<Loss> losses) const;

  // Ranks that have not left, ascending.
  std::vector<uint32_t> Staying() const;
  size_t staying() const { return staying_; }
  size_t drained() const { return drained_; }
  // Members that neither left for good nor are drained.
  size_t remaining() const { return remaining_; }
  // Some left for good, and were not drained: the program is over.
  bool IsFinishing() const { return finished_ > 0; }
  // The watched members that are silent at `now`, the longest silent first.
  std::vector<Loss> Silent(absl::Time now) const;
  // When the next member will count as lost, if the coordinator hears none.
  absl::Time Deadline() const;
  // Collectives per second, over the last heartbeats about rank 0.
  double BatchesPerSecond() const;
  // Of the members that have not left; no GPUs where none has told of one.
  v1::GpuUsage GpuUsage() const;

 private:
  static constexpr size_t kMostSamples = 16;

  std::string SilenceClaim(const Seat& seat, absl::Time now) const;
  // Adds what the seat's GPU does to the sums (`sign` 1), or takes it from them (-1).
  void CountGpu(const Seat& seat, int sign);

  const absl::Duration silence_limit_;
  std::vector<Seat> seats_;
  absl::flat_hash_map<std::string, uint32_t> rank_of_;
  size_t staying_;
  size_t remaining_;
  size_t finished_ = 0;
  size_t drained_ = 0;
  // Watched ranks by the time of their last sign of life, the longest silent first.
  std::set<std::pair<absl::Time, uint32_t>> watched_;
  std::vector<bool> is_watched_;
  absl::Time judged_from_ = absl::InfinitePast();
  // When rank 0 had completed how many collectives.
  std::deque<std::pair<absl::Time, uint64_t>> samples_;
  struct GpuSums {
    int64_t gpus = 0;
    int64_t telling = 0;
    int64_t busy_percent = 0;
    int64_t memory_used = 0;
    int64_t memory_total = 0;
  } gpu_sums_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_MEMBERS_ROSTER_H_
