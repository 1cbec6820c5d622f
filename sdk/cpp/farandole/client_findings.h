#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_FINDINGS_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_FINDINGS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farandole/client_types.h"
#include "farandole/wire.h"

/// @file
/// Answers about what the ranks of a job do: their findings, and their timelines. Numbers of fields are those of
/// proto/farandole/v1: monitor.proto, flight.proto and timeline.proto.
namespace farandole {
inline namespace sdk {
namespace client {

/// Says which evidence Client::Diagnose asks for.
struct DiagnoseOptions {
  /// The stacks of the programs, too.
  bool stacks = true;
  /// Not now, but as the coordinator has asked by itself when the job stalled last.
  bool last_stall = false;
};

/// A collective that some ranks have submitted and others have not.
struct Wait {
  std::string name;
  /// "allreduce" and so on.
  std::string operation = "allreduce";
  /// The number of its process set; 0: all ranks.
  uint32_t group = 0;
  /// How often the name was submitted in this epoch, this time included.
  uint32_t ordinal = 0;
  /// Ranks. Nobody is missing: its data moves, or the last steps of the ranks were not read.
  std::vector<int> waiting;
  std::vector<int> missing;
  /// Of the rank that has waited longest.
  std::chrono::microseconds waited{0};
};

/// A call on a thread's stack.
struct Frame {
  std::string function;
  std::string file;
  /// 0: not known.
  uint32_t line = 0;
  /// Of compiled code: the name of the program or library.
  std::string module = {};
};

/// Ranks whose main threads have the same stack.
struct StackGroup {
  std::vector<int> ranks;
  /// The innermost first.
  std::vector<Frame> frames;
  /// It has most ranks of all.
  bool is_dominant = false;
  /// Of compiled code: the calls of the innermost of `frames`, or all of the stack.
  std::vector<Frame> native_frames = {};
};

/// How far a submission is. kUnknown is a state that this version does not know.
enum class Progress { kUnknown = 0, kSubmitted = 1, kStarted = 2, kFinished = 3, kFailed = 4, kEnded = 5 };
/// "submitted", "started", "finished", "failed" (ranks disagree), "ended" (the epoch ended before), "unknown".
inline const char* NameOf(Progress progress) {
  constexpr const char* kNames[] = {"unknown", "submitted", "started", "finished", "failed", "ended"};
  return kNames[static_cast<int>(progress)];
}

/// A collective that a rank has submitted.
struct Submission {
  /// Without its middle if it is long.
  std::string name;
  /// How often the name was submitted in this epoch, this time included: equal on all ranks for those that belong
  /// together.
  uint32_t ordinal = 0;
  Progress progress = Progress::kUnknown;
  std::string operation = "allreduce";
  /// "float32" and so on.
  std::string dtype = "uint8";
  uint64_t bytes = 0;
  uint32_t group = 0;
  /// Equal on all ranks; 0: none, as for small collectives that all ranks computed at once.
  uint64_t batch = 0;
  bool is_on_gpu = false;
  /// From its submission to the reading, to its start, and to its end.
  std::chrono::microseconds age{0};
  std::chrono::microseconds started_after{0};
  std::chrono::microseconds ended_after{0};
};

/// A rank's flight recorder: its latest submissions.
struct Flight {
  uint64_t epoch = 0;
  /// Not set: no epoch has begun.
  std::optional<int> rank;
  uint32_t size = 0;
  int64_t pid = 0;
  /// Submissions for which there was no room.
  uint64_t unrecorded = 0;
  /// The oldest first.
  std::vector<Submission> submissions;
};

/// A thread of a worker's program.
struct Thread {
  /// The main thread of Python is "MainThread"; "": not known.
  std::string name;
  uint32_t tid = 0;
  /// The innermost first.
  std::vector<Frame> frames;
  /// Of compiled code: the calls of the innermost of `frames`, or all of the stack.
  std::vector<Frame> native_frames = {};
  /// So many threads more have the same native frames, and are left out.
  uint32_t alike = 0;
  /// Why it has no native frames; "" if it has, or if none of the process were read.
  std::string why_no_native = {};
};

/// A thread as the kernel knows it.
struct KernelThread {
  uint32_t tid = 0;
  std::string name;
  /// "running", "sleeping", "in the kernel" or "stopped".
  std::string state;
  /// The system call that it is in; "": none, or not known.
  std::string call;
};

/// A worker's process about itself.
struct Evidence {
  uint64_t epoch = 0;
  std::optional<Flight> flight;
  std::vector<Thread> threads;
  /// One sentence: how the stacks were read, or why there are none.
  std::string about_stacks;
  std::vector<KernelThread> kernel_threads;
  /// NAME=value of the library's settings that have no secrets, and versions of programs.
  std::vector<std::string> settings;
  /// As about_stacks, of the native frames.
  std::string about_native_stacks = {};
};

/// The answer of one rank.
struct RankFindings {
  int rank = 0;
  /// Not set: none came. Then `silence` says why.
  std::optional<Evidence> evidence;
  std::string silence;
};

/// The answers of the ranks of a job about what they do, or did last.
struct Findings {
  /// Which collective is missing on whom; "": nobody waits for anybody.
  std::string sentence;
  /// The longest first; at most 16.
  std::vector<Wait> waits;
  /// The greatest first.
  std::vector<StackGroup> stacks;
  /// Ascending; of a large job those that others wait for, and 64 others at most.
  std::vector<RankFindings> ranks;
  uint64_t epoch = 0;
  uint32_t size = 0;
  /// When the job stalled and the coordinator asked by itself; not set: it was asked to.
  std::optional<Time> stalled;
};

/// Some events of a rank.
struct TimelinePart {
  /// From 1, ascending.
  uint64_t number = 0;
  int rank = 0;
  std::string host_id;
  std::string hostname;
  uint32_t events = 0;
  /// Their lines as the files of timelines have them (docs/timeline.md), compressed by zlib, and how many bytes that
  /// was. The times are those of the host's CLOCK_MONOTONIC.
  std::string lines_zlib;
  uint32_t lines_bytes = 0;
  /// When it was sent, by the same clock; by how much the coordinator's clock is ahead of that one, and by how much
  /// that may be wrong. 0: nothing is known yet.
  int64_t sent_ns = 0;
  int64_t ahead_ns = 0;
  uint64_t error_ns = 0;
};

/// The recording of a job so far. `farandole timeline get` makes one file of it, in the coordinator's time.
struct Timeline {
  /// Counts the job's recordings, from 1.
  uint64_t recording = 0;
  /// It goes on.
  bool is_on = false;
  Time started;
  std::vector<TimelinePart> parts;
  /// Of an answer; 0 here.
  uint64_t next = 0;
  /// Events that came faster than the ranks could send them, and those that the coordinator gave up for later ones.
  uint64_t dropped = 0;
  uint64_t forgotten = 0;
};

inline const char* OperationName(uint64_t number) {
  constexpr const char* kNames[] = {"allreduce",     "allgather", "broadcast", "barrier", "alltoall",
                                    "reducescatter", "join",      "gather",    "scatter"};
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

inline const char* DTypeName(uint64_t number) {
  constexpr const char* kNames[] = {"uint8",   "int8",    "int16", "int32",  "int64",         "float16",    "bfloat16",
                                    "float32", "float64", "bool",  "uint16", "float8_e4m3fn", "float8_e5m2"};
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

inline void Read(WireReader reader, Wait* wait) {
  while (reader.Next()) {
    if (reader.field() == 1) wait->name = reader.Text();
    if (reader.field() == 2) wait->operation = OperationName(reader.As());
    if (reader.field() == 3) wait->group = reader.As<uint32_t>();
    if (reader.field() == 4) wait->ordinal = reader.As<uint32_t>();
    if (reader.field() == 5) wait->waiting = reader.Numbers<int>();
    if (reader.field() == 6) wait->missing = reader.Numbers<int>();
    if (reader.field() == 7) wait->waited = std::chrono::microseconds(reader.As<int64_t>());
  }
}

inline void Read(WireReader reader, Frame* frame) {
  while (reader.Next()) {
    if (reader.field() == 1) frame->function = reader.Text();
    if (reader.field() == 2) frame->file = reader.Text();
    if (reader.field() == 3) frame->line = reader.As<uint32_t>();
    if (reader.field() == 4) frame->module = reader.Text();
  }
}

inline void Read(WireReader reader, StackGroup* group) {
  while (reader.Next()) {
    if (reader.field() == 1) group->ranks = reader.Numbers<int>();
    if (reader.field() == 2) Read(reader.Message(), &group->frames.emplace_back());
    if (reader.field() == 3) group->is_dominant = reader.As() != 0;
    if (reader.field() == 4) Read(reader.Message(), &group->native_frames.emplace_back());
  }
}

/// `name` gets the number of its name.
inline void Read(WireReader reader, Submission* submission, size_t* name) {
  while (reader.Next()) {
    if (reader.field() == 1) *name = reader.As<size_t>();
    if (reader.field() == 2) submission->ordinal = reader.As<uint32_t>();
    if (reader.field() == 3 && reader.As() <= static_cast<uint64_t>(Progress::kEnded))
      submission->progress = static_cast<Progress>(reader.As());
    if (reader.field() == 4) submission->operation = OperationName(reader.As());
    if (reader.field() == 5) submission->dtype = DTypeName(reader.As());
    if (reader.field() == 6) submission->bytes = reader.As();
    if (reader.field() == 7) submission->group = reader.As<uint32_t>();
    if (reader.field() == 9) submission->batch = reader.As();
    if (reader.field() == 10) submission->is_on_gpu = reader.As() != 0;
    if (reader.field() == 11) submission->age = std::chrono::microseconds(reader.As<int64_t>());
    if (reader.field() == 12) submission->started_after = std::chrono::microseconds(reader.As<int64_t>());
    if (reader.field() == 13) submission->ended_after = std::chrono::microseconds(reader.As<int64_t>());
  }
}

inline void Read(WireReader reader, Flight* flight) {
  std::vector<std::string> names;
  std::vector<size_t> name_of;
  while (reader.Next()) {
    if (reader.field() == 1) flight->epoch = reader.As();
    if (reader.field() == 2) flight->rank = reader.As<int>();
    if (reader.field() == 3) flight->size = reader.As<uint32_t>();
    if (reader.field() == 4) flight->pid = reader.As<int64_t>();
    if (reader.field() == 5) flight->unrecorded = reader.As();
    if (reader.field() == 6) names.push_back(reader.Text());
    if (reader.field() == 7)
      Read(reader.Message(), &flight->submissions.emplace_back(), &name_of.emplace_back(size_t{0}));
  }
  for (size_t at = 0; at < name_of.size(); ++at) {
    if (name_of[at] < names.size()) flight->submissions[at].name = names[name_of[at]];
  }
}

inline void Read(WireReader reader, Thread* thread) {
  while (reader.Next()) {
    if (reader.field() == 1) thread->name = reader.Text();
    if (reader.field() == 2) thread->tid = reader.As<uint32_t>();
    if (reader.field() == 3) Read(reader.Message(), &thread->frames.emplace_back());
    if (reader.field() == 4) Read(reader.Message(), &thread->native_frames.emplace_back());
    if (reader.field() == 5) thread->alike = reader.As<uint32_t>();
    if (reader.field() == 6) thread->why_no_native = reader.Text();
  }
}

inline void Read(WireReader reader, KernelThread* thread) {
  while (reader.Next()) {
    if (reader.field() == 1) thread->tid = reader.As<uint32_t>();
    if (reader.field() == 2) thread->name = reader.Text();
    if (reader.field() == 3) thread->state = reader.Text();
    if (reader.field() == 4) thread->call = reader.Text();
  }
}

inline void Read(WireReader reader, Evidence* evidence) {
  while (reader.Next()) {
    if (reader.field() == 1) evidence->epoch = reader.As();
    if (reader.field() == 3) Read(reader.Message(), &evidence->flight.emplace());
    if (reader.field() == 4) Read(reader.Message(), &evidence->threads.emplace_back());
    if (reader.field() == 5) evidence->about_stacks = reader.Text();
    if (reader.field() == 6) Read(reader.Message(), &evidence->kernel_threads.emplace_back());
    if (reader.field() == 7) evidence->settings.push_back(reader.Text());
    if (reader.field() == 8) evidence->about_native_stacks = reader.Text();
  }
}

inline void Read(WireReader reader, RankFindings* findings) {
  while (reader.Next()) {
    if (reader.field() == 1) findings->rank = reader.As<int>();
    if (reader.field() == 2) Read(reader.Message(), &findings->evidence.emplace());
    if (reader.field() == 3) findings->silence = reader.Text();
  }
}

inline void Read(WireReader reader, Findings* findings) {
  while (reader.Next()) {
    if (reader.field() == 1) findings->sentence = reader.Text();
    if (reader.field() == 2) Read(reader.Message(), &findings->waits.emplace_back());
    if (reader.field() == 3) Read(reader.Message(), &findings->stacks.emplace_back());
    if (reader.field() == 4) Read(reader.Message(), &findings->ranks.emplace_back());
    if (reader.field() == 5) findings->epoch = reader.As();
    if (reader.field() == 6) findings->size = reader.As<uint32_t>();
    if (reader.field() == 7) findings->stalled = TimeOf(reader.As());
  }
}

inline void Read(WireReader reader, TimelinePart* part) {
  while (reader.Next()) {
    if (reader.field() == 1) part->number = reader.As();
    if (reader.field() == 2) part->rank = reader.As<int>();
    if (reader.field() == 3) part->host_id = reader.Text();
    if (reader.field() == 4) part->hostname = reader.Text();
    if (reader.field() != 5) continue;
    for (WireReader chunk = reader.Message(); chunk.Next();) {
      if (chunk.field() == 3) part->lines_zlib = chunk.Text();
      if (chunk.field() == 4) part->lines_bytes = chunk.As<uint32_t>();
      if (chunk.field() == 5) part->events = chunk.As<uint32_t>();
      if (chunk.field() == 7) part->sent_ns = chunk.As<int64_t>();
      if (chunk.field() == 8) part->ahead_ns = chunk.Zigzag();
      if (chunk.field() == 9) part->error_ns = chunk.As();
    }
  }
}

inline void Read(WireReader reader, Timeline* timeline) {
  while (reader.Next()) {
    if (reader.field() == 1) timeline->recording = reader.As();
    if (reader.field() == 2) timeline->is_on = reader.As() != 0;
    if (reader.field() == 3) timeline->started = TimeOf(reader.As());
    if (reader.field() == 4) Read(reader.Message(), &timeline->parts.emplace_back());
    if (reader.field() == 5) timeline->next = reader.As();
    if (reader.field() == 6) timeline->dropped = reader.As();
    if (reader.field() == 7) timeline->forgotten = reader.As();
  }
}

}  // namespace client
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_FINDINGS_H_
