#ifndef FARANDOLE_CHECKPOINT_WRITER_H_
#define FARANDOLE_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// Makes the file of one checkpoint, for the one writer that was granted a fencing token for it. The writer fills a
// temporary file; Finish gives it its final name, which carries the token, so that two writers never share a name and
// nothing is ever replaced. The checkpoint exists once the coordinator has taken the result of Finish.
//
// Owned by the thread that writes. Errors are one sentence each, with the path and the system's words, and the codes of
// durable_file.h; after an error nothing of this checkpoint is left in the directory. An object that goes away
// unfinished abandons.
class CheckpointWriter {
 public:
  // Makes `directory` if it is missing, removes the temporary files that writers of `name` with smaller tokens left
  // there, and creates the empty temporary file. `directory` "" is the working directory; `extension` has no leading
  // dot. `catalogue` names the catalogue that granted the token (BeginCheckpointResponse). Other jobs may write into
  // the same directory, so Open removes only temporary files of this catalogue. It removes them even if their writer
  // still runs; that writer's Finish then fails. If `catalogue` is "", Open removes only files without a catalogue
  // whose process is gone.
  //   ALREADY_EXISTS    another writer has this token and name: a greater token is needed
  //   INVALID_ARGUMENT  `name` or `extension` is empty, cannot be part of a file's name, or the name gets longer than
  //   255 bytes; step < 0
  static absl::StatusOr<CheckpointWriter> Open(absl::string_view directory, absl::string_view name, int64_t step,
                                               uint64_t token, absl::string_view extension,
                                               absl::string_view catalogue);
  // The greatest token in the name of any file in `directory`, of any job and finished or not; 0 if there is none or no
  // such directory. A writer whose token is greater collides with none of them. Tokens grow by one: those that are more
  // than 2^32 above all lower ones no coordinator has given, and they do not count; whoever may make files there could
  // use up the numbers by a name otherwise.
  static absl::StatusOr<uint64_t> GreatestToken(const std::string& directory);
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&& other) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&& other) noexcept;

  // Where to write: DIRECTORY/.NAME-step-STEP.tTOKEN.CATALOGUE.partial.EXTENSION, absolute. STEP has at least 8 digits.
  // It ends in the extension because many libraries choose their format by it, and others append it if it is missing.
  const std::string& temporary_path() const { return temporary_path_; }
  // The finished file: DIRECTORY/NAME-step-STEP.tTOKEN.EXTENSION, absolute.
  const std::string& final_path() const { return final_path_; }

  // Makes the written file durable, under its final name and with a manifest beside it (manifest.h), and returns its
  // row for the catalogue. Reads the file. Call it once.
  //   NOT_FOUND            the temporary file is gone: a writer with a greater token has fenced this one
  //   FAILED_PRECONDITION  it is empty, or no file any more; or the checkpoint is finished or abandoned already
  //   ALREADY_EXISTS       there is a file of the final name
  absl::StatusOr<v1::Checkpoint> Finish(absl::string_view job, uint64_t epoch);

  // Removes the file of Finish: the coordinator did not take it.
  void Discard();
  // Removes the temporary file; nothing happens after Finish.
  void Abandon();
  // Abandons after the writing failed with `cause` (the writer's words), and says why in a sentence.
  //   RESOURCE_EXHAUSTED  the disk is full (less than 1 MiB is free): said instead of `cause`, which seldom does
  //   UNAVAILABLE         otherwise
  absl::Status Fail(absl::string_view cause);

 private:
  CheckpointWriter() = default;
  absl::Status RemoveStale() const;
  absl::Status CreateTemporary();
  absl::Status CheckIsAlone() const;
  // The temporary file is still a file, and the program has written something to it.
  absl::Status CheckWritten() const;
  absl::StatusOr<v1::Checkpoint> Publish(absl::string_view job, uint64_t epoch);

  std::string directory_;
  std::string name_;
  int64_t step_ = 0;
  uint64_t token_ = 0;
  // ".CATALOGUE.partial".
  std::string suffix_;
  std::string temporary_path_;
  std::string final_path_;
  // The temporary file, locked as long as it is this object's to remove; -1: it is not, or not any more.
  int lock_fd_ = -1;
};

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_WRITER_H_
