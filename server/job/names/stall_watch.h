#ifndef FARANDOLE_SERVER_JOB_NAMES_STALL_WATCH_H_
#define FARANDOLE_SERVER_JOB_NAMES_STALL_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/members/roster.h"
#include "server/job/names/group_table.h"
#include "server/job/names/negotiation.h"
#include "server/job/names/notice.h"
#include "server/job/rules/rank_set.h"

namespace farandole {

// Names the ranks that block others. A tensor is stalled when some rank of its group waits for it for longer than the
// stall warning and another has not submitted it. When a report or the negotiation shows one, all members are asked
// what they do. Within one second the answers become one notice, which first names ranks that wait for each other. The
// watch repeats a notice about the same tensors and missing ranks after one stall warning time, and then after twice
// the time each. If there is a stall limit, ranks that are missing for longer are lost. Owned by its RunningEpoch;
// borrows that epoch's other parts, which must outlive it.
class StallWatch {
 public:
  static constexpr absl::Duration kAnswerTime = absl::Seconds(1);
  static constexpr size_t kMostTensorsNamed = 6;
  static constexpr size_t kMostRanksNamed = 8;
  // Of what all ranks report, the oldest waits of each: so many in all, and one of each rank at least. An epoch of up
  // to 512 ranks has all 64 of each report.
  static constexpr size_t kMostWaits = 32768;
  // A notice looks at so many tensors, the oldest; many more than it names.
  static constexpr size_t kMostTensors = 512;

  // `stall_limit`: InfiniteDuration for none. `bytes`: what reports are charged to; may be null. A report for which
  // there is no room names no tensor.
  StallWatch(uint64_t epoch, absl::Duration stall_warning, absl::Duration stall_limit, const GroupTable& groups,
             const Negotiation& negotiation, const Roster& roster, std::shared_ptr<ByteAccount> bytes);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Takes a report of `rank`, asked for or not; within the proto's bounds.
  void Report(uint32_t rank, const v1::StallReport& report, absl::Time now);
  // Takes the due steps: appends inquiries and a notice to `notices`. The notice's sentence; "" if there is none.
  std::string Advance(absl::Time now, Notices* notices);
  // Ranks that tensors of the last notice waited for.
  RankSet Missing() const;
  // The coordinator itself did not run for a while: no stall counts for the limit that was before.
  void Excuse(absl::Time judged_from) { judged_from_ = std::max(judged_from_, judged_from); }
  // The ranks that keep others waiting for longer than the limit, ascending, and for which tensor.
  const std::vector<Roster::Loss>& overdue() const { return overdue_; }
  // When to call Advance next.
  absl::Time Deadline() const;

 private:
  struct Account {
    v1::StallReport report;
    absl::Time at;
    // It answers the inquiry that is open.
    bool is_answer = false;
    // The rank waits for more tensors than the report has now.
    bool is_cut = false;
    ByteCharge charge = {};
  };
  using Tensor = std::pair<uint32_t, std::string>;
  struct Stall {
    v1::OpType op = v1::OP_TYPE_ALLREDUCE;
    // When the first and the last of the waiting ranks began to wait.
    absl::Time oldest = absl::InfiniteFuture();
    absl::Time youngest = absl::InfinitePast();
    RankSet waiting;
    RankSet missing;
    bool lacks_slot = false;
  };
  using Stalls = absl::btree_map<Tensor, Stall>;
  // Tensors as they are found, at most kMostTensors.
  struct Found {
    // Null: there is no room for another tensor.
    Stall* Of(uint32_t group, const std::string& name);

    std::deque<std::pair<Tensor, Stall>> tensors;
    // Names are those of `tensors`.
    absl::flat_hash_map<std::pair<uint32_t, absl::string_view>, Stall*> places = {};
  };

  bool IsAsking() const { return inquiry_opened_ != absl::InfinitePast(); }
  absl::Time NextInquiry() const;
  void Ask(absl::Time now, Notices* notices);
  std::string Conclude(absl::Time now, Notices* notices);
  // So many of the oldest waits of each report are kept.
  int MostOfReport() const;
  // Whether the last notice was about all tensors of the report.
  bool IsNoticed(const v1::StallReport& report) const;
  // The tensors that ranks have waited for longest, with the missing ranks, and then only those that are stalled at
  // `now`.
  Stalls Gather(absl::Time now) const;
  // Adds the tensors of the ranks' reports, the longest waits first.
  void AddReported(Found* found) const;
  void KeepStalled(absl::Time now, Stalls* stalls) const;
  // Finds the ranks that block others, starting at the longest stall, if that stall is over the limit.
  void FindOverdue(const Stalls& stalls, const Stalls& waits, absl::Time now);
  // Follows the missing ranks of `stall`, and the ranks that these wait for in turn. Returns those that wait for no
  // other rank; all missing ranks of `stall` if each waits for another; none while a rank has not answered the inquiry,
  // or waits for tensors that are not among `waits`.
  RankSet ToBlame(const Stalls& waits, const Stall& stall) const;
  // The ranks that have joined, so that no rank waits for them.
  RankSet Joined() const;
  std::string Describe(const Tensor& tensor, const Stall& stall, absl::Time now) const;
  // The work of a missing rank instead: "rank 1 (last submitted loss 60 s ago)".
  std::string DescribeMissing(uint32_t rank, absl::Time now) const;
  std::string Compose(const Stalls& stalls, absl::Time now) const;
  // "ranks wait for each other: rank 0 in a for rank 1, rank 1 in b for rank 0"; "": no rank waits for itself.
  std::string DescribeCycle(const Stalls& stalls) const;
  // `cycle`: each rank waits for the next, the last for the first. `wait_of`: the tensor that each rank waits for.
  static std::string ShowCycle(const std::vector<uint32_t>& cycle,
                               const std::vector<const Stalls::value_type*>& wait_of);
  static std::vector<const Stalls::value_type*> OldestFirst(const Stalls& stalls);
  // Whether a tensor is stalled, or a rank is missing, of which the last notice did not tell.
  bool HasNews(const Stalls& stalls) const;

  const uint64_t epoch_;
  const absl::Duration stall_warning_;
  const absl::Duration stall_limit_;
  const GroupTable& groups_;
  const Negotiation& negotiation_;
  const Roster& roster_;
  // Shared by all that is charged to the job.
  const std::shared_ptr<ByteAccount> bytes_;

  uint64_t inquiry_ = 0;
  // InfinitePast: none is open.
  absl::Time inquiry_opened_ = absl::InfinitePast();
  absl::btree_set<uint32_t> unanswered_;
  absl::btree_map<uint32_t, Account> accounts_;
  // Names that were being gathered since this time or before have been looked at.
  absl::Time covered_until_ = absl::InfinitePast();
  absl::Time recheck_at_ = absl::InfiniteFuture();
  absl::Time not_before_ = absl::InfinitePast();
  // The tensors and the time of the last notice.
  absl::btree_map<Tensor, RankSet> noticed_;
  ByteCharge noticed_charge_;
  absl::Time noticed_at_ = absl::InfinitePast();
  // From that notice to the next about the same.
  absl::Duration distance_ = absl::ZeroDuration();
  absl::Time judged_from_ = absl::InfinitePast();
  std::vector<Roster::Loss> overdue_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_NAMES_STALL_WATCH_H_
