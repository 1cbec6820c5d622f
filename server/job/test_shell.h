#ifndef FARANDOLE_SERVER_JOB_TEST_SHELL_H_
#define FARANDOLE_SERVER_JOB_TEST_SHELL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/job/job.h"

namespace farandole {

// The shell around a Job as tests have it: carries out its actions in memory, with a clock that only they move, and
// writes down every promise of actions.h, event.h and job.h that the job breaks.
class TestShell {
 public:
  explicit TestShell(JobOptions options);

  // One step; rows, streams and calls are as its actions leave them.
  Actions Step(const Event& event);
  // Steps through the ticks that the job wants up to `duration` from now; `seen` gets the actions of each.
  void Advance(absl::Duration duration, const std::function<void(const Actions&)>& seen);
  // The clock moves on, and the job does not get its ticks.
  void Oversleep(absl::Duration duration) { now_ += duration; }
  // The coordinator dies and a new one restores the job from the durable state; all streams are gone. `seen` gets the
  // actions of its first tick.
  void Restart(const std::function<void(const Actions&)>& seen);

  // Forms the epoch of `size` workers on one host, whose incarnations are IncarnationOf("w0") and so on. Their streams.
  // `tokens`: the one that each was started with, of which the first is the run's; none: they are not known.
  std::vector<StreamId> FormEpoch(int size, const std::vector<std::string>& tokens = {});

  CallId NewCall();
  StreamId NewStream();
  bool IsOpen(StreamId stream) const { return open_.count(stream) > 0; }
  // The stream's end, as the transport sees it.
  Actions Close(StreamId stream, const std::string& evidence);

  const Job& job() const { return *job_; }
  const JobOptions& options() const { return options_; }
  // The wall clock, which alone jumps, is set.
  void StepWallClock(absl::Duration step) { wall_ahead_ += step; }
  absl::Time now() const { return now_; }
  absl::Time next_tick() const { return next_tick_; }
  const std::map<std::string, std::string>& rows() const { return rows_; }
  // Broken promises, as sentences; empty in a passing test.
  const std::vector<std::string>& broken() const { return broken_; }

 private:
  std::function<std::string(size_t)> RandomBytes();
  // After the job was deleted: deletes the rows that are left, and makes a job of the same name.
  void Purge();
  // Makes the job anew from its rows.
  bool Restore();
  void Apply(const StoreBatch& batch);
  void Apply(const Output& output);
  void CheckEpoch(const v1::Epoch& epoch);
  void CheckSlot(const v1::SlotAssigned& slot);
  void Expect(bool claim, const std::string& otherwise);

  const JobOptions options_;
  std::unique_ptr<Job> job_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  absl::Duration wall_ahead_ = absl::ZeroDuration();
  absl::Time next_tick_ = absl::InfiniteFuture();
  std::map<std::string, std::string> rows_;
  uint64_t last_call_ = 0;
  uint64_t last_stream_ = 0;
  uint64_t last_random_ = 0;
  std::set<StreamId> open_;
  // Calls that wait for their answer.
  std::set<CallId> calls_;
  // Of them, those that may be answered in a later step.
  std::set<CallId> late_calls_;
  SharedMessage last_sent_;
  // Messages sent so far: the last epoch (number and bytes), (epoch, slot) -> (group, name), the last token.
  uint64_t last_epoch_ = 0;
  std::string last_epoch_bytes_;
  std::map<std::pair<uint64_t, uint32_t>, std::pair<uint32_t, std::string>> slots_;
  uint64_t last_token_ = 0;
  std::set<uint64_t> tokens_;
  std::vector<std::string> broken_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_TEST_SHELL_H_
