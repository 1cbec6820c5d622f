#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_TYPES_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_TYPES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farandole/wire.h"

/// @file
/// A coordinator's answers about its jobs. Numbers of fields are those of proto/farandole/v1.
namespace farandole {
inline namespace sdk {
namespace client {

using Time = std::chrono::system_clock::time_point;

/// Names a job. Tenant "" is the token's own; another tenant's jobs need a token of a role of the
/// cluster.
struct JobId {
  std::string name;
  std::string tenant = {};

  /// "job mnist of tenant vision".
  std::string ToString() const { return "job " + name + (tenant.empty() ? "" : " of tenant " + tenant); }
};

/// An owner of jobs.
struct Tenant {
  /// 1 to 64 bytes of [a-z0-9-].
  std::string name;
  /// The most jobs that it may run at a time, and the most workers in them together. 0: the default of 64 and 4,096.
  uint32_t max_jobs = 0;
  uint32_t max_workers = 0;
};

/// A tenant, its quota, and what it uses of that.
struct TenantRecord {
  std::string name;
  /// The most jobs that it may run at a time, the most workers in them together, and the most bytes of its rows in the
  /// coordinator's store.
  uint32_t max_jobs = 0;
  uint32_t max_workers = 0;
  uint64_t max_store_bytes = 0;
  /// Tenants of one cohort lend each other the workers that they do not use; "": it is in none. Its fair part of what
  /// the cohort has is by its weight; beyond its own workers it may have so many from its cohort.
  std::string cohort;
  uint32_t weight = 0;
  uint32_t borrow = 0;
  Time created;
  /// Those that are good.
  uint32_t tokens = 0;
  /// Jobs that form or run, and those in the queue, and the workers that they want.
  uint32_t jobs = 0;
  uint64_t workers = 0;
  uint32_t queued_jobs = 0;
  uint64_t queued_workers = 0;
  /// As they were measured last.
  uint64_t store_bytes = 0;
};

/// The parts of a quota that are to change; the others stay as they are. 0 is a part's default, and the cohort "" is
/// none.
struct QuotaChange {
  std::optional<uint32_t> max_jobs = {};
  std::optional<uint32_t> max_workers = {};
  std::optional<uint64_t> max_store_bytes = {};
  std::optional<std::string> cohort = {};
  std::optional<uint32_t> weight = {};
  std::optional<uint32_t> borrow = {};
};

/// Where a job is in its life. kUnknown is a state that this version does not know.
enum class State { kUnknown = 0, kForming = 1, kRunning = 2, kFinished = 3, kFailed = 4, kQueued = 5 };
/// "forming", "running", "finished", "failed", "queued", "unknown".
inline const char* NameOf(State state) {
  constexpr const char* kNames[] = {"unknown", "forming", "running", "finished", "failed", "queued"};
  return kNames[static_cast<int>(state)];
}

/// The bounds and counts of an elastic job.
struct Elastic {
  uint32_t min_size = 0;
  uint32_t max_size = 0;
  /// Workers that wait to join while an epoch runs, and epochs that ended by a loss.
  uint32_t waiting = 0;
  uint32_t resets = 0;
};

/// Of the workers of an epoch that have told of their GPUs, added up.
struct GpuUsage {
  uint32_t gpus = 0;
  /// Those that say how busy they are, and the mean of what they say, 0 to 100.
  uint32_t telling_gpus = 0;
  double busy_percent = 0;
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
};

/// The place of a launch that waits until its tenant's quota has room for it.
struct QueuePlace {
  /// From 1, of so many that wait for the same room: those of the tenant, or of its cohort.
  uint32_t position = 0;
  uint32_t length = 0;
  /// One sentence: why it does not start now.
  std::string reason;
};

/// A job in short.
struct Summary {
  std::string tenant;
  std::string name;
  State state = State::kUnknown;
  /// One sentence: why the job is in this state.
  std::string reason;
  uint64_t epoch = 0;
  uint32_t size = 0;
  uint32_t wanted_size = 0;
  Time created;
  /// Collectives, over the last heartbeats of rank 0.
  double batches_per_second = 0;
  /// Over the last half minute of rank 0; none: not measured, or not yet.
  std::optional<double> steps_per_second;
  /// The last stall sentence of this epoch, and when it was written; "" and no time: there was none.
  std::string last_stall;
  std::optional<Time> last_stall_at;
  std::optional<Elastic> elastic;
  std::optional<GpuUsage> gpus;
  /// Of a queued job.
  std::optional<QueuePlace> queue;

  bool HasEnded() const { return state == State::kFinished || state == State::kFailed; }
  /// The sentence that tells what the job waits for; "": nothing that the coordinator knows. A running job's is its
  /// last stall, which may be over.
  std::string Blocker() const {
    if (state == State::kForming || state == State::kQueued) return reason;
    return state == State::kRunning ? last_stall : "";
  }
};

/// The last report about one worker's GPU.
struct Gpu {
  std::string name;
  /// 0 to 100; none: it does not tell.
  std::optional<uint32_t> busy_percent;
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
};

/// One process of a job.
struct Worker {
  /// Means nothing in the state "waiting".
  uint32_t rank = 0;
  /// "live", "draining", "left", "lost: ...", "ended", "returning" or "waiting".
  std::string state;
  std::string incarnation;
  std::string host_id;
  std::string hostname;
  int64_t pid = 0;
  /// How long ago it was last heard of.
  std::chrono::milliseconds silence{0};
  uint64_t batches = 0;
  /// It had left before the program of another worker failed, which may have missed it.
  bool missed = false;
  std::optional<Gpu> gpu;
};

/// One decision about a job.
struct Event {
  Time at;
  std::string sentence;
};

/// A host on which workers failed: joins from it are refused for a while.
struct BarredHost {
  std::string hostname;
  uint32_t failures = 0;
  std::chrono::milliseconds barred{0};
};

/// A row of a job's catalogue.
struct Checkpoint {
  std::string name;
  int64_t step = 0;
  /// The token that it was written under; a later grant has a greater one.
  uint64_t fencing_token = 0;
  /// Absolute, on the writer's host.
  std::string path;
  uint64_t size_bytes = 0;
  /// Of the file, in hexadecimal digits.
  std::string sha256;
  Time committed;
  /// The writer's.
  uint64_t epoch = 0;
  uint32_t rank = 0;
};

/// Somebody has asked a job's program for a checkpoint.
struct CheckpointRequest {
  /// Counts the job's requests, from 1.
  uint64_t number = 0;
  /// The one who asked first: "token 0123456789abcdef (operator of tenant vision)".
  std::string asker;
  Time since;
  /// How often it was asked for; all askers get the same checkpoint.
  uint32_t times = 0;
  /// When all ranks of the program were told; none: they have not called CheckpointRequested() since.
  std::optional<Time> told;
  /// None: it is pending.
  std::optional<Time> over;
  /// Of one that is over: what was written, or a sentence that says why there is no checkpoint.
  std::optional<Checkpoint> checkpoint;
  std::string failure;

  bool IsPending() const { return !over.has_value(); }
};

/// A job with its workers and its history.
struct Details {
  Summary summary;
  std::vector<Worker> workers;
  /// The newest 256, the oldest first.
  std::vector<Event> history;
  /// Messages about tensors in this epoch: constant in the steady state.
  uint64_t negotiation_messages = 0;
  std::vector<BarredHost> barred_hosts;
  /// The last one; none: nobody has asked.
  std::optional<CheckpointRequest> checkpoint_request;
};

// ---- How they are read ----

inline Time TimeOf(uint64_t unix_ms) { return Time(std::chrono::milliseconds(static_cast<int64_t>(unix_ms))); }

inline State StateOf(uint64_t number) { return number <= 5 ? static_cast<State>(number) : State::kUnknown; }

/// The rights of a token; docs/security.md has the table. Each of a tenant's may do what the ones before it may.
enum class Role {
  kUnknown = 0,
  kViewer = 1,
  kLauncher = 2,
  kOperator = 3,
  kAdmin = 4,
  /// Of the cluster: they mean all tenants.
  kAuditor = 5,
  kClusterOperator = 6,
  kRoot = 7,
};

/// A token as the coordinator keeps it, without its text.
struct Token {
  /// Names the token, and is no secret.
  std::string id;
  std::string tenant;
  Role role = Role::kUnknown;
  std::string label;
  Time created;
  /// nullopt: it does not expire; it was never used. The use is known to about a minute.
  std::optional<Time> expires;
  std::optional<Time> last_used;
  /// The id of the token with which it was made.
  std::string made_with;
  /// Why it is not good any more; "": it is.
  std::string ended;
};

/// A token's text, which is not shown again.
struct NewToken {
  std::string text;
  Token about;
};

inline void Read(WireReader reader, Token* token) {
  while (reader.Next()) {
    if (reader.field() == 1) token->id = reader.Text();
    if (reader.field() == 2) token->tenant = reader.Text();
    if (reader.field() == 3) token->role = reader.As<uint64_t>() <= 7 ? reader.As<Role>() : Role::kUnknown;
    if (reader.field() == 4) token->label = reader.Text();
    if (reader.field() == 5) token->created = TimeOf(reader.As());
    if (reader.field() == 6) token->expires = TimeOf(reader.As());
    if (reader.field() == 7) token->last_used = TimeOf(reader.As());
    if (reader.field() == 8) token->made_with = reader.Text();
    if (reader.field() == 12) token->ended = reader.Text();
  }
}
inline void Read(WireReader reader, NewToken* token) {
  while (reader.Next()) {
    if (reader.field() == 1) token->text = reader.Text();
    if (reader.field() == 2) Read(reader.Message(), &token->about);
  }
}
inline void Read(WireReader reader, GpuUsage* usage) {
  while (reader.Next()) {
    if (reader.field() == 1) usage->gpus = reader.As<uint32_t>();
    if (reader.field() == 2) usage->telling_gpus = reader.As<uint32_t>();
    if (reader.field() == 3) usage->busy_percent = reader.Real();
    if (reader.field() == 4) usage->memory_used_bytes = reader.As();
    if (reader.field() == 5) usage->memory_total_bytes = reader.As();
  }
}

inline void Read(WireReader reader, QueuePlace* place) {
  while (reader.Next()) {
    if (reader.field() == 1) place->position = reader.As<uint32_t>();
    if (reader.field() == 2) place->length = reader.As<uint32_t>();
    if (reader.field() == 3) place->reason = reader.Text();
  }
}

inline void Read(WireReader reader, Summary* summary) {
  uint32_t waiting = 0;
  uint32_t resets = 0;
  while (reader.Next()) {
    if (reader.field() == 1) summary->tenant = reader.Text();
    if (reader.field() == 2) summary->name = reader.Text();
    if (reader.field() == 3) summary->state = StateOf(reader.As());
    if (reader.field() == 4) summary->reason = reader.Text();
    if (reader.field() == 5) summary->epoch = reader.As();
    if (reader.field() == 6) summary->size = reader.As<uint32_t>();
    if (reader.field() == 7) summary->wanted_size = reader.As<uint32_t>();
    if (reader.field() == 8) summary->created = TimeOf(reader.As());
    if (reader.field() == 9) summary->batches_per_second = reader.Real();
    if (reader.field() == 10) summary->last_stall = reader.Text();
    if (reader.field() == 11) summary->last_stall_at = TimeOf(reader.As());
    if (reader.field() == 12) {
      summary->elastic.emplace();
      for (WireReader bounds = reader.Message(); bounds.Next();) {
        if (bounds.field() == 1) summary->elastic->min_size = bounds.As<uint32_t>();
        if (bounds.field() == 2) summary->elastic->max_size = bounds.As<uint32_t>();
      }
    }
    if (reader.field() == 13) waiting = reader.As<uint32_t>();
    if (reader.field() == 14) resets = reader.As<uint32_t>();
    if (reader.field() == 15) Read(reader.Message(), &summary->gpus.emplace());
    if (reader.field() == 35) summary->steps_per_second = reader.Real();
    if (reader.field() == 40) Read(reader.Message(), &summary->queue.emplace());
  }
  if (summary->elastic.has_value()) {
    summary->elastic->waiting = waiting;
    summary->elastic->resets = resets;
  }
}

inline void Read(WireReader reader, Gpu* gpu) {
  while (reader.Next()) {
    if (reader.field() == 1) gpu->name = reader.Text();
    if (reader.field() == 2) gpu->busy_percent = reader.As<uint32_t>();
    if (reader.field() == 3) gpu->memory_used_bytes = reader.As();
    if (reader.field() == 4) gpu->memory_total_bytes = reader.As();
  }
}

inline void Read(WireReader reader, Worker* worker) {
  while (reader.Next()) {
    if (reader.field() == 1) worker->rank = reader.As<uint32_t>();
    if (reader.field() == 2) {
      for (WireReader member = reader.Message(); member.Next();) {
        if (member.field() == 1) worker->incarnation = member.Text();
        if (member.field() == 2) worker->host_id = member.Text();
        if (member.field() == 3) worker->hostname = member.Text();
        if (member.field() == 4) worker->pid = member.As<int64_t>();
      }
    }
    if (reader.field() == 3) worker->silence = std::chrono::milliseconds(reader.As<int64_t>());
    if (reader.field() == 4) worker->batches = reader.As();
    if (reader.field() == 5) worker->state = reader.Text();
    if (reader.field() == 6) Read(reader.Message(), &worker->gpu.emplace());
    if (reader.field() == 7) worker->missed = reader.As() != 0;
  }
}

inline void Read(WireReader reader, Event* event) {
  while (reader.Next()) {
    if (reader.field() == 1) event->at = TimeOf(reader.As());
    if (reader.field() == 2) event->sentence = reader.Text();
  }
}

inline void Read(WireReader reader, TenantRecord* tenant) {
  while (reader.Next()) {
    if (reader.field() == 1) tenant->name = reader.Text();
    if (reader.field() == 2) tenant->max_jobs = reader.As<uint32_t>();
    if (reader.field() == 3) tenant->max_workers = reader.As<uint32_t>();
    if (reader.field() == 4) tenant->created = TimeOf(reader.As());
    if (reader.field() == 5) tenant->tokens = reader.As<uint32_t>();
    if (reader.field() == 6) tenant->jobs = reader.As<uint32_t>();
    if (reader.field() == 7) tenant->workers = reader.As();
    if (reader.field() == 40) tenant->cohort = reader.Text();
    if (reader.field() == 41) tenant->weight = reader.As<uint32_t>();
    if (reader.field() == 42) tenant->borrow = reader.As<uint32_t>();
    if (reader.field() == 43) tenant->queued_jobs = reader.As<uint32_t>();
    if (reader.field() == 44) tenant->queued_workers = reader.As();
    if (reader.field() == 80) tenant->store_bytes = reader.As();
    if (reader.field() == 81) tenant->max_store_bytes = reader.As();
  }
}

inline void Read(WireReader reader, BarredHost* host) {
  while (reader.Next()) {
    if (reader.field() == 1) host->hostname = reader.Text();
    if (reader.field() == 2) host->failures = reader.As<uint32_t>();
    if (reader.field() == 3) host->barred = std::chrono::milliseconds(reader.As<int64_t>());
  }
}

inline void Read(WireReader reader, Checkpoint* checkpoint) {
  constexpr const char* kDigits = "0123456789abcdef";
  while (reader.Next()) {
    if (reader.field() == 1) checkpoint->name = reader.Text();
    if (reader.field() == 2) checkpoint->step = reader.As<int64_t>();
    if (reader.field() == 3) checkpoint->fencing_token = reader.As();
    if (reader.field() == 4) checkpoint->path = reader.Text();
    if (reader.field() == 5) checkpoint->size_bytes = reader.As();
    if (reader.field() == 6) {
      for (const char byte : reader.Text()) {
        checkpoint->sha256 += kDigits[static_cast<unsigned char>(byte) >> 4];
        checkpoint->sha256 += kDigits[static_cast<unsigned char>(byte) & 15];
      }
    }
    if (reader.field() == 7) checkpoint->committed = TimeOf(reader.As());
    if (reader.field() == 8) checkpoint->epoch = reader.As();
    if (reader.field() == 9) checkpoint->rank = reader.As<uint32_t>();
  }
}

inline void Read(WireReader reader, CheckpointRequest* request) {
  while (reader.Next()) {
    if (reader.field() == 1) request->number = reader.As();
    if (reader.field() == 2) request->asker = reader.Text();
    if (reader.field() == 3) request->since = TimeOf(reader.As());
    if (reader.field() == 4) request->times = reader.As<uint32_t>();
    if (reader.field() == 6) request->told = TimeOf(reader.As());
    if (reader.field() == 8) request->over = TimeOf(reader.As());
    if (reader.field() == 9) Read(reader.Message(), &request->checkpoint.emplace());
    if (reader.field() == 10) request->failure = reader.Text();
  }
}

inline void Read(WireReader reader, Details* details) {
  while (reader.Next()) {
    if (reader.field() == 1) Read(reader.Message(), &details->summary);
    if (reader.field() == 2) Read(reader.Message(), &details->workers.emplace_back());
    if (reader.field() == 3) Read(reader.Message(), &details->history.emplace_back());
    if (reader.field() == 4) details->negotiation_messages = reader.As();
    if (reader.field() == 5) Read(reader.Message(), &details->barred_hosts.emplace_back());
    if (reader.field() == 96) Read(reader.Message(), &details->checkpoint_request.emplace());
  }
}

/// A list of which each is field 1 of an answer.
template <typename Each>
void Read(WireReader reader, std::vector<Each>* all) {
  while (reader.Next()) {
    if (reader.field() == 1) Read(reader.Message(), &all->emplace_back());
  }
}

}  // namespace client
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_TYPES_H_
