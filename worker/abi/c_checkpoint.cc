// The checkpoint part of the C interface.
#include <memory>
#include <string>
#include <utility>

#include "worker/abi/c_call.h"
#include "worker/farandole.h"

using farandole::Code;
using farandole::Worker;

namespace {

// Pointers given to the caller point here.
thread_local std::string path_for_caller;

std::string Text(const char* text) { return text == nullptr ? "" : text; }

int GivePath(const absl::StatusOr<std::string>& given, const char** path) {
  if (!given.ok()) return Code(given.status());
  path_for_caller = *given;
  *path = path_for_caller.c_str();
  return FARANDOLE_OK;
}

// Calls `use(worker)` while the worker lives on, and no lock is held: disk and network may take long, and Rejoin does
// not wait for them. Stop waits for a commit. The epoch of a worker that is replaced meanwhile has ended, as the
// coordinator answers.
template <typename Use>
int WithKeptWorker(const Use& use) {
  const std::shared_ptr<Worker> worker = farandole::Process().Share();
  return worker == nullptr ? Code(farandole::NotRunning()) : use(*worker);
}

}  // namespace

extern "C" {

int farandole_checkpoint_begin(const char* directory, const char* name, int64_t step, const char* extension,
                               int replace, int64_t* checkpoint, const char** path) {
  return WithKeptWorker([&](Worker& worker) {
    absl::StatusOr<farandole::CheckpointSession::Begun> begun =
        worker.checkpoints().Begin(Text(directory), Text(name), step, Text(extension), replace != 0);
    if (!begun.ok()) return Code(begun.status());
    *checkpoint = begun->number;
    return GivePath(std::move(begun->path), path);
  });
}

int farandole_checkpoint_commit(int64_t checkpoint, const char** path) {
  return WithKeptWorker([&](Worker& worker) { return GivePath(worker.checkpoints().Commit(checkpoint), path); });
}

int farandole_checkpoint_fail(int64_t checkpoint, const char* cause) {
  return WithKeptWorker([&](Worker& worker) { return Code(worker.checkpoints().Fail(checkpoint, Text(cause))); });
}

void farandole_checkpoint_abandon(int64_t checkpoint) {
  WithKeptWorker([&](Worker& worker) {
    worker.checkpoints().Abandon(checkpoint);
    return 0;
  });
}

int farandole_checkpoint_requested(int32_t* requested, int (*interrupted)(void)) {
  return farandole::WithLastingWorker("the question for a checkpoint", [&](Worker& worker) {
    const absl::StatusOr<bool> answer = worker.checkpoint_question().Ask(farandole::Wrap(interrupted));
    *requested = answer.ok() && *answer ? 1 : 0;
    return Code(answer.status());
  });
}

int farandole_checkpoint_find(const char* directory, const char* name, int64_t step, const char** path,
                              int64_t* found_step) {
  return WithKeptWorker([&](Worker& worker) {
    absl::StatusOr<farandole::v1::Checkpoint> found = worker.checkpoints().Find(Text(directory), Text(name), step);
    if (!found.ok()) return Code(found.status());
    *found_step = found->step();
    return GivePath(found->path(), path);
  });
}

}  // extern "C"
