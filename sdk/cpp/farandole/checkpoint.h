#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CHECKPOINT_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "farandole/job.h"

namespace farandole {
inline namespace sdk {

/// The name and place of a checkpoint that is written.
struct CheckpointPlace {
  std::string directory;
  int64_t step = 0;
  std::string name = "checkpoint";
  std::string extension = "bin";
  /// A checkpoint of this name and step, of an earlier run, gives way to the new one.
  bool replace = false;
};

/// The right to write one checkpoint, which only rank 0 gets: write the file at path(), then Commit(). One is open at a
/// time in a process. Its destructor removes an uncommitted checkpoint.
class CheckpointWriter {
 public:
  /// PERMISSION_DENIED: not rank 0. ALREADY_EXISTS: there is one of this name and step. FAILED_PRECONDITION: another is
  /// open. RESOURCE_EXHAUSTED, UNAVAILABLE: the directory cannot be written, or the coordinator not be reached.
  static StatusOr<CheckpointWriter> Begin(Job& job, const CheckpointPlace& place) {
    CheckpointWriter made;
    const char* path = nullptr;
    const int code =
        job.functions().checkpoint_begin(place.directory.c_str(), place.name.c_str(), place.step,
                                         place.extension.c_str(), place.replace ? 1 : 0, &made.number_, &path);
    if (code != FARANDOLE_OK) return StatusOf(job.functions(), code);
    made.life_ = job.life();
    made.is_open_ = true;
    made.path_ = path;
    return made;
  }
  CheckpointWriter(CheckpointWriter&& other) noexcept
      : life_(other.life_),
        is_open_(std::exchange(other.is_open_, false)),
        number_(other.number_),
        path_(std::move(other.path_)) {}
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;
  ~CheckpointWriter() {
    if (is_open_) life_.functions().checkpoint_abandon(number_);
  }

  /// The temporary file to write.
  const std::string& path() const { return path_; }

  /// Checksums, syncs and renames the file, and enters it into the catalogue: the checkpoint exists from then on, at
  /// the path that is given. ABORTED: a newer writer has fenced this one, or the epoch has ended; nothing is left.
  StatusOr<std::string> Commit() {
    if (!std::exchange(is_open_, false)) return IsOver();
    const Functions& functions = life_.functions();
    const char* path = nullptr;
    const int code = functions.checkpoint_commit(number_, &path);
    if (code != FARANDOLE_OK) return StatusOf(functions, code);
    return std::string(path);
  }
  /// The writing has failed, for `cause`: removes the file, and gives the error to tell: RESOURCE_EXHAUSTED if the disk
  /// is full, else UNAVAILABLE.
  Status Fail(const std::string& cause) {
    if (!std::exchange(is_open_, false)) return IsOver();
    const Functions& functions = life_.functions();
    return StatusOf(functions, functions.checkpoint_fail(number_, cause.c_str()));
  }

 private:
  CheckpointWriter() = default;
  static Status IsOver() {
    return Status(StatusCode::kFailedPrecondition, "this checkpoint was committed, failed or given away already");
  }

  Life life_;
  bool is_open_ = false;
  int64_t number_ = 0;
  std::string path_;
};

/// On rank 0: has `write`, which takes a path and gives a Status, write the checkpoint's file. Its path; "" on the
/// other ranks, which return at once.
template <typename Write>
StatusOr<std::string> SaveCheckpoint(Job& job, const CheckpointPlace& place, Write&& write) {
  if (job.rank() != 0) return std::string();
  StatusOr<CheckpointWriter> writer = CheckpointWriter::Begin(job, place);
  if (!writer.ok()) return writer.status();
  if (Status written = write(writer->path()); !written.ok()) return writer->Fail(written.message());
  return writer->Commit();
}

/// Whether somebody wants a checkpoint now (`farandole job checkpoint`): true once for each request, at the same call
/// on all ranks. Every rank must call it equally often: once a step, in an elastic job after State::Commit. Most calls
/// only count; two a second, and every 32nd at least, are a small allreduce. ABORTED: the epoch has ended; the next one
/// is told of the request again.
inline StatusOr<bool> CheckpointRequested(Job& job) {
  int32_t requested = 0;
  const int code = job.functions().checkpoint_requested(&requested, job.interrupted());
  if (code != FARANDOLE_OK) return StatusOf(job.functions(), code);
  return requested != 0;
}

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
};

/// The newest checkpoint of `name` in the job's catalogue ("": of any name), or the one of `step`; without a
/// coordinator, among those of `directory`. NOT_FOUND: there is none.
inline StatusOr<FoundCheckpoint> FindCheckpoint(Job& job, const std::string& directory,
                                                const std::string& name = "checkpoint", int64_t step = -1) {
  const char* path = nullptr;
  FoundCheckpoint found;
  const int code = job.functions().checkpoint_find(directory.c_str(), name.c_str(), step, &path, &found.step);
  if (code != FARANDOLE_OK) return StatusOf(job.functions(), code);
  found.path = path;
  return found;
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CHECKPOINT_H_
