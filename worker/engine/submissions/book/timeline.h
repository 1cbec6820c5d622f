#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/device/gpu_watch.h"
#include "worker/engine/submissions/book/profiler_ranges.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// Records what a process's tensors waited for, for an attached profiler and as a file for chrome://tracing or Perfetto:
// one row a tensor, with the time from its submission until its batch began (NEGOTIATE_ALLREDUCE) and that of the batch
// (ALLREDUCE). Times are those of the real-time clock, and each process is its rank, so that the files of several ranks
// can be put together.
//
// One a process; it outlives epochs. Thread-safe. A thread of its own writes: what it cannot keep up with is dropped,
// and counted in the file. A file whose process was killed lacks its end, and can be read all the same.
class Timeline {
 public:
  // Events that wait to be written, and tensors that have a row of their own.
  static constexpr size_t kMostWaiting = 1 << 16;
  static constexpr size_t kMostRows = 1 << 14;

  Timeline() = default;
  ~Timeline() { Stop(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Of one rank: `path`, or for another rank than 0 "path.rank3.json" for "path.json".
  static std::string PathOf(const std::string& path, int rank);

  // Replaces the file at PathOf, and ends another one that is being written; the same one goes on.
  // `marks_cycles`: the beginning of each batch is marked.
  //   INVALID_ARGUMENT: the file cannot be written; the file that is being written goes on
  absl::Status Start(const std::string& path, bool marks_cycles, int rank, const std::string& who);
  // Writes the buffered events and ends the file; does nothing if none was started.
  void Stop();

  // Before the first submission: they are ranges for a profiler from now on.
  void Attach(const ProfilerRanges* profiler) { profiler_ = profiler; }

  bool is_on() const { return is_written_.load(std::memory_order_relaxed) || profiler_ != nullptr; }
  // Where is_on: a submission is made.
  void Begin(Submission* submission) const;
  // Where is_on: a submission is complete, by its status. started_ns is 0 where it was part of no batch.
  void Add(const Submission& submission, int64_t ended_ns);
  void MarkCycle(int64_t now_ns);
  // Adds what collectives do on a GPU, in a row of their own, where the file is written.
  GpuRecorder GpuTimes();

 private:
  // By values, since a submission's place is used again.
  struct Event {
    // "": the beginning of a batch.
    std::string name;
    OpType op;
    DType dtype;
    uint32_t group;
    int64_t count;
    int64_t submitted_ns;
    int64_t started_ns;
    int64_t ended_ns;
    std::string error;
    // Of a batch on a GPU, whose name is its label: only when it began and ended there.
    bool is_on_gpu = false;
  };
  // Stop, under life_.
  void End();
  void Push(Event event);
  void Write();
  void WriteEvent(const Event& event);
  // One JSON object, on a line.
  void WriteLine(const std::string& text);
  void WriteSpan(const std::string& name, int row, int64_t from_ns, int64_t to_ns, const std::string& arguments);
  int RowNamed(const std::string& name);

  std::mutex life_;  // one Start or Stop at a time
  const ProfilerRanges* profiler_ = nullptr;
  std::atomic<bool> is_written_{false};
  std::atomic<bool> marks_cycles_{false};
  std::thread writer_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> waiting_;
  uint64_t dropped_ = 0;
  bool is_ending_ = false;

  // The writer's.
  std::string path_;
  std::FILE* file_ = nullptr;
  bool is_first_ = true;
  int rank_ = 0;
  int64_t real_minus_monotonic_ns_ = 0;
  std::map<std::string, int> rows_;
};

inline bool IsOn(const Timeline* timeline) { return timeline != nullptr && timeline->is_on(); }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_TIMELINE_H_
