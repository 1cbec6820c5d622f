#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/device/gpu_watch.h"
#include "worker/engine/submissions/book/profiler_ranges.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/engine/timeline/event_queue.h"
#include "worker/engine/timeline/timeline_text.h"

namespace farandole {

// Records what a process's tensors waited for, for an attached profiler and as a file for chrome://tracing or Perfetto:
// one row a tensor, with the time from its submission until its batch began (NEGOTIATE_ALLREDUCE) and that of the batch
// (ALLREDUCE). Times are those of the real-time clock, and each process is its rank, so that the files of several ranks
// can be put together.
//
// One a process; it outlives epochs. Thread-safe. A thread of its own writes (EventQueue): what it cannot keep up with
// is dropped, and counted in the file. A file whose process was killed lacks its end, and can be read all the same.
// Beside the file, a listener may get the events.
class Timeline {
 public:
  static constexpr size_t kMostWaiting = EventQueue::kMostWaiting;

  Timeline() = default;
  ~Timeline() {
    Unlisten(listener_);
    Stop();
  }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // The file of one rank: `path`, or for another rank than 0 "path.rank3.json" for "path.json".
  static std::string PathOf(const std::string& path, int rank);

  // Replaces the file at PathOf, and ends another one that is being written; the same one goes on.
  // `marks_cycles`: the beginning of each batch is marked.
  //   INVALID_ARGUMENT: the file cannot be written; the file that is being written goes on
  absl::Status Start(const std::string& path, bool marks_cycles, int rank, const std::string& who);
  // Writes the buffered events and ends the file; does nothing if none was started.
  void Stop();

  // From now on `sink` gets the events, and the sink of an earlier listener none.
  void Listen(const void* listener, bool marks_cycles, EventQueue::Sink sink);
  // Its sink has all events that were added, and gets none any more. Nothing where another listens.
  void Unlisten(const void* listener);

  // Before the first submission: they are ranges for a profiler from now on.
  void Attach(const ProfilerRanges* profiler) { profiler_ = profiler; }

  bool is_on() const { return outputs_.load(std::memory_order_relaxed) != 0 || profiler_ != nullptr; }
  // Where is_on: a submission is made.
  void Begin(Submission* submission) const;
  // Where is_on: a submission is complete, by its status. started_ns is 0 where it was part of no batch.
  void Add(const Submission& submission, int64_t ended_ns);
  void MarkCycle(int64_t now_ns);
  // Adds what collectives do on a GPU, in a row of their own, where the file is written.
  GpuRecorder GpuTimes();

 private:
  // Bits of outputs_.
  static constexpr uint32_t kFile = 1, kListener = 2, kFileMarks = 4, kListenerMarks = 8;

  bool Has(uint32_t output) const { return (outputs_.load(std::memory_order_relaxed) & output) != 0; }
  // Stop, under life_.
  void End();
  void Push(const TimelineEvent& event);
  void Write(const std::vector<TimelineEvent>& events, uint64_t dropped);

  std::mutex life_;  // one Start or Stop, Listen or Unlisten at a time
  const ProfilerRanges* profiler_ = nullptr;
  std::atomic<uint32_t> outputs_{0};
  EventQueue to_file_;
  EventQueue to_listener_;
  const void* listener_ = nullptr;

  std::string path_;
  // Used by the thread of to_file_ while that runs.
  std::FILE* file_ = nullptr;
  std::string lines_;
  std::unique_ptr<TimelineText> text_;
};

inline bool IsOn(const Timeline* timeline) { return timeline != nullptr && timeline->is_on(); }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_
