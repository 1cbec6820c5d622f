#ifndef FARANDOLE_SERVER_JOB_TIMELINE_RECORD_H_
#define FARANDOLE_SERVER_JOB_TIMELINE_RECORD_H_

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/timeline.pb.h"
#include "server/job/members/dropped_events.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// The timeline of a job: has its ranks record, and keeps the latest of what they send, in memory, for an hour after the
// job's end. Owned by its Job, whose parts it borrows.
class TimelineRecord {
 public:
  // Of a job; all jobs together have JobOptions::timelines.
  static constexpr int64_t kMostBytes = 32 << 20;

  explicit TimelineRecord(JobParts* job) : job_(*job) {}
  ~TimelineRecord();
  TimelineRecord(const TimelineRecord&) = delete;
  TimelineRecord& operator=(const TimelineRecord&) = delete;

  void On(const TimelineOrdered& event);
  void On(const TimelineFetched& event);
  // From a member of the epoch that runs or ran last, within its bounds.
  void Take(uint32_t rank, StreamId stream, const v1::TimelineChunk& chunk);
  // Has the ranks of a new epoch record, and answers calls that stop the recording.
  void Settle();
  absl::Time Deadline() const;
  bool IsKept() const { return !parts_.empty(); }

 private:
  absl::Status Start(bool marks_cycles);
  absl::Status Stop(CallId call);
  v1::CoordinatorMessage Order() const;
  void Keep(uint32_t rank, const v1::TimelineChunk& chunk);
  void ForgetFirst();
  void Clear();

  JobParts& job_;
  uint64_t recording_ = 0;
  bool is_on_ = false;
  bool marks_cycles_ = false;
  int64_t started_unix_ms_ = 0;
  // The wall clock does not step within a recording.
  absl::Duration wall_ahead_;
  // In which all ranks were told last.
  uint64_t told_epoch_ = 0;
  // Calls that wait for the last chunks of these ranks, until then.
  std::vector<CallId> stopping_;
  std::set<uint32_t> unanswered_;
  absl::Time stop_until_ = absl::InfiniteFuture();

  std::deque<v1::TimelinePart> parts_;
  int64_t bytes_ = 0;
  uint64_t last_number_ = 0;
  DroppedEvents dropped_;
  uint64_t forgotten_ = 0;
  // When nothing is kept any more: the job has ended an hour before.
  absl::Time forget_at_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_TIMELINE_RECORD_H_
