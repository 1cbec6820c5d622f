#include "worker/member/checkpoint_session.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8_text.h"
#include "checkpoint/manifest.h"

namespace farandole {

namespace {

// At a token for a checkpoint, where other jobs write into the same directory.
constexpr int kMostAttempts = 8;
// Between two questions whether to give up.
constexpr std::chrono::milliseconds kSurface(100);

// Removes a file that the catalogue does not name any more, if it is in the directory of the checkpoint that took its
// place, and its manifest says that it is of the same job, name and step. The catalogue has what workers of the job's
// earlier runs, perhaps other users', said, and must not lead this process to other files. A file that is not removed
// stays and does no harm.
void RemoveReplaced(const std::string& replaced, const std::string& job, const v1::Checkpoint& by) {
  const std::filesystem::path old_path(replaced), new_path(by.path());
  std::error_code error;
  const bool is_beside = std::filesystem::equivalent(old_path.parent_path(), new_path.parent_path(), error);
  if (error || !is_beside || old_path.filename() == new_path.filename()) return;
  // By the name of the directory that this process has written to itself: the other one may be a link that changes.
  const std::string path = (new_path.parent_path() / old_path.filename()).string();
  const absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(path));
  const bool is_it = manifest.ok() && manifest->job == job && manifest->checkpoint.name() == by.name() &&
                     manifest->checkpoint.step() == by.step();
  if (!is_it) return;
  unlink(path.c_str());
  unlink(ManifestPath(path).c_str());
}

}  // namespace

absl::StatusOr<v1::BeginCheckpointResponse> CheckpointSession::Grant(const std::string& directory,
                                                                     absl::string_view name, int64_t step, bool replace,
                                                                     uint64_t greatest) {
  v1::BeginCheckpointResponse granted;
  replaced_.clear();
  if (link_ != nullptr) {
    v1::BeginCheckpointRequest request;
    request.set_job(job_);
    request.set_incarnation(link_->incarnation());
    request.set_secret(link_->secret());
    request.set_epoch(epoch_);
    request.set_name(std::string(name));
    request.set_step(step);
    request.set_replace(replace);
    request.set_greatest_token_on_disk(greatest);
    return link_->conversation().BeginCheckpoint(std::move(request));
  }
  granted.set_token(greatest + 1);
  absl::StatusOr<std::vector<Manifest>> manifests = ListManifests(directory);
  if (absl::IsNotFound(manifests.status())) return granted;
  if (!manifests.ok()) return manifests.status();
  for (const Manifest& manifest : *manifests) {
    const v1::Checkpoint& present = manifest.checkpoint;
    if (present.name() != name || present.step() != step) continue;
    if (!replace) {
      return absl::AlreadyExistsError(
          absl::StrCat("checkpoint ", name, " of step ", step, " exists already: ", present.path()));
    }
    if (manifest.job == job_) replaced_.push_back(present.path());
  }
  return granted;
}

absl::StatusOr<CheckpointSession::Begun> CheckpointSession::Begin(absl::string_view directory, absl::string_view name,
                                                                  int64_t step, absl::string_view extension,
                                                                  bool replace) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (rank_ != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("checkpoint ", name, " of step ", step, ": only rank 0 writes checkpoints, this is rank ", rank_));
  }
  if (writer_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", name, " of step ", step,
                                                      ": another is being written: ", writer_->temporary_path()));
  }
  if (absl::Status status = CheckUtf8("the checkpoint's name", name); !status.ok()) return status;
  wanted_ = link_ == nullptr ? 0 : link_->checkpoint_wish().wanted();
  absl::StatusOr<uint64_t> greatest = CheckpointWriter::GreatestToken(std::string(directory));
  if (!greatest.ok()) return TellFailure(greatest.status());
  absl::BitGen random;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<v1::BeginCheckpointResponse> granted = Grant(std::string(directory), name, step, replace, *greatest);
    if (!granted.ok()) return TellFailure(granted.status());
    absl::StatusOr<CheckpointWriter> writer =
        CheckpointWriter::Open(directory, name, step, granted->token(), extension, granted->catalogue());
    if (absl::IsAlreadyExists(writer.status()) && attempt < kMostAttempts) {
      // By chance, so that two writers do not go on side by side.
      *greatest = granted->token() + absl::Uniform<uint64_t>(random, 0, uint64_t{1} << attempt);
      continue;
    }
    if (!writer.ok()) return TellFailure(writer.status());
    if (link_ != nullptr) {
      absl::Status status = CheckUtf8("the checkpoint's path", writer->final_path());
      if (!status.ok()) return TellFailure(status);
    }
    writer_ = *std::move(writer);
    number_ = absl::Uniform<int64_t>(random, 1, std::numeric_limits<int64_t>::max());
    return Begun{number_, writer_->temporary_path()};
  }
}

absl::StatusOr<CheckpointWriter> CheckpointSession::Take(int64_t number) {
  if (!writer_.has_value() || number != number_) {
    return absl::AbortedError(
        "this checkpoint is not being written any more: the epoch in which it was begun has ended, or it was "
        "committed, "
        "failed or abandoned");
  }
  return *std::exchange(writer_, std::nullopt);
}

absl::StatusOr<std::string> CheckpointSession::Commit(int64_t number) {
  {
    const std::lock_guard<std::mutex> lock(commits_mutex_);
    ++commits_;
  }
  absl::StatusOr<std::string> committed = CommitAlone(number);
  const std::lock_guard<std::mutex> lock(commits_mutex_);
  --commits_;
  commit_ended_.notify_all();
  return committed;
}

absl::Status CheckpointSession::AwaitCommit(const std::function<bool()>& interrupted) {
  std::unique_lock<std::mutex> lock(commits_mutex_);
  while (!commit_ended_.wait_for(lock, kSurface, [this] { return commits_ == 0; })) {
    lock.unlock();
    if (interrupted && interrupted()) {
      return absl::AbortedError("interrupted while another thread was committing a checkpoint");
    }
    lock.lock();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointSession::CommitAlone(int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::StatusOr<CheckpointWriter> taken = Take(number);
  if (!taken.ok()) return taken.status();
  CheckpointWriter& writer = *taken;
  absl::StatusOr<v1::Checkpoint> finished = writer.Finish(job_, epoch_);
  if (!finished.ok()) return TellFailure(finished.status());
  if (link_ == nullptr) {
    for (const std::string& path : replaced_) RemoveReplaced(path, job_, *finished);
    return finished->path();
  }
  v1::CommitCheckpointRequest request;
  request.set_job(job_);
  request.set_incarnation(link_->incarnation());
  request.set_secret(link_->secret());
  *request.mutable_checkpoint() = *std::move(finished);
  absl::StatusOr<v1::CommitCheckpointResponse> committed = link_->conversation().CommitCheckpoint(request);
  if (!committed.ok()) return Settle(std::move(request), committed.status(), &writer);
  link_->checkpoint_wish().Forget(wanted_);
  RemoveReplaced(committed->replaced_path(), job_, request.checkpoint());
  return committed->checkpoint().path();
}

absl::StatusOr<std::string> CheckpointSession::Settle(v1::CommitCheckpointRequest request, const absl::Status& failure,
                                                      CheckpointWriter* writer) {
  request.set_give_up(true);
  const absl::StatusOr<v1::CommitCheckpointResponse> settled = link_->conversation().CommitCheckpoint(request);
  if (!settled.ok()) {
    return absl::Status(failure.code(),
                        absl::StrCat(failure.message(), "; whether the catalogue has it is not known (",
                                     settled.status().message(), "), so the file stays: ", writer->final_path()));
  }
  if (settled->has_checkpoint()) {
    link_->checkpoint_wish().Forget(wanted_);
    return settled->checkpoint().path();
  }
  writer->Discard();
  return TellFailure(failure);
}

absl::Status CheckpointSession::Fail(int64_t number, absl::string_view cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::StatusOr<CheckpointWriter> writer = Take(number);
  if (!writer.ok()) return writer.status();
  return TellFailure(writer->Fail(cause));
}

absl::Status CheckpointSession::TellFailure(const absl::Status& failure) {
  // The next epoch is told of the request again.
  if (wanted_ != 0 && !absl::IsAborted(failure)) link_->checkpoint_wish().Fail(wanted_, failure.message());
  return failure;
}

void CheckpointSession::Abandon(int64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Its destructor removes the file.
  if (Take(number).ok())
    TellFailure(absl::CancelledError("the program gave it up while it wrote the file")).IgnoreError();
}

absl::StatusOr<v1::Checkpoint> CheckpointSession::Find(const std::string& directory, absl::string_view name,
                                                       int64_t step) {
  if (absl::Status status = CheckUtf8("the checkpoint's name", name); !status.ok()) return status;
  if (link_ == nullptr) {
    absl::StatusOr<Manifest> manifest = FindManifest(directory, name, step);
    if (!manifest.ok()) return manifest.status();
    return manifest->checkpoint;
  }
  v1::FindCheckpointRequest request;
  request.set_job(job_);
  request.set_name(std::string(name));
  request.set_step(step);
  absl::StatusOr<v1::FindCheckpointResponse> found = link_->conversation().FindCheckpoint(std::move(request));
  if (!found.ok()) return found.status();
  return found->checkpoint();
}

}  // namespace farandole
