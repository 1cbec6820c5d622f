#include "checkpoint/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"

namespace farandole {
namespace {

constexpr absl::string_view kPartial = ".partial";
// In place of the catalogue's name, which has a digit at least.
constexpr absl::string_view kNoCatalogue = "alone";
constexpr absl::string_view kStepMark = "-step-";
constexpr size_t kMostNameBytes = 255;
// From one token in a directory to the next.
constexpr uint64_t kMostLeap = uint64_t{1} << 32;
// A write that fails for want of space leaves less than one block of a file system, rarely more than this.
constexpr uint64_t kFullBelowBytes = 1 << 20;

absl::Status CheckPart(absl::string_view what, absl::string_view part) {
  if (part.empty()) return absl::InvalidArgumentError(absl::StrCat("a checkpoint's ", what, " must not be empty"));
  for (const char c : part) {
    if (c != '/' && !absl::ascii_iscntrl(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("a checkpoint's %s becomes part of a file's name and cannot have the byte 0x%02x", what,
                        static_cast<unsigned char>(c)));
  }
  return absl::OkStatus();
}

// The leading digits of `text` as a number, and removes them; false where there are none or too many.
bool ConsumeNumber(absl::string_view* text, uint64_t* number) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  if (!absl::SimpleAtoi(text->substr(0, digits), number)) return false;
  text->remove_prefix(digits);
  return true;
}

// Removes the part that follows a checkpoint's name in all its files' names: "-step-STEP.tTOKEN", before a dot.
bool ConsumeStepAndToken(absl::string_view* file, uint64_t* token) {
  uint64_t step = 0;
  return absl::ConsumePrefix(file, kStepMark) && ConsumeNumber(file, &step) && absl::ConsumePrefix(file, ".t") &&
         ConsumeNumber(file, token) && absl::StartsWith(*file, ".");
}

// The token in the name of a temporary file (of the checkpoint, of its manifest, or one that its writer has named after
// it) of checkpoint `name` with this suffix; false for any other file.
bool TokenOfTemporary(absl::string_view file, absl::string_view name, absl::string_view suffix, uint64_t* token) {
  return absl::ConsumePrefix(&file, ".") && absl::ConsumePrefix(&file, name) && ConsumeStepAndToken(&file, token) &&
         (absl::StartsWith(file, absl::StrCat(suffix, ".")) || absl::EndsWith(file, suffix));
}

// A program may have made a directory of it.
absl::Status Remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? FileError(error.value(), "remove", path) : absl::OkStatus();
}

// The process that has the file locked lives, or its state is unknown. A pipe, which another user may have put there,
// is not waited for.
bool IsInUse(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return true;
  const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return is_locked;
}

// Another user made the file: where it cannot be removed, it is in nobody's way.
bool IsForeign(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 && found.st_uid != geteuid();
}

// The token in the name of a file of any checkpoint; 0 for any other file.
uint64_t TokenOfFile(absl::string_view file) {
  const size_t mark = file.rfind(kStepMark);
  if (mark == absl::string_view::npos) return 0;
  file.remove_prefix(mark);
  uint64_t token = 0;
  return ConsumeStepAndToken(&file, &token) ? token : 0;
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  char* const resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return FileError(errno, "open directory", path);
  std::string absolute = resolved;
  free(resolved);
  return absolute;
}

}  // namespace

absl::StatusOr<CheckpointWriter> CheckpointWriter::Open(absl::string_view directory, absl::string_view name,
                                                        int64_t step, uint64_t token, absl::string_view extension,
                                                        absl::string_view catalogue) {
  for (const auto& [what, part] : {std::make_pair("name", name), std::make_pair("extension", extension)}) {
    if (absl::Status valid = CheckPart(what, part); !valid.ok()) return valid;
  }
  if (step < 0)
    return absl::InvalidArgumentError(absl::StrCat("a checkpoint's step must not be negative, but is ", step));
  const std::string stem = absl::StrFormat("%s-step-%08d.t%d", name, step, token);
  const std::string file = absl::StrCat(stem, ".", extension);
  CheckpointWriter writer;
  writer.suffix_ = absl::StrCat(".", catalogue.empty() ? kNoCatalogue : catalogue, kPartial);
  // The manifest's temporary file has the longest name.
  const size_t longest = 1 + ManifestPath(file).size() + writer.suffix_.size();
  if (longest > kMostNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint's name '", name, "' makes a file's name of ",
                                                   longest, " bytes; ", kMostNameBytes, " is the most"));
  }
  const std::string asked = directory.empty() ? "." : std::string(directory);
  if (absl::Status made = MakeDirectories(asked); !made.ok()) return made;
  absl::StatusOr<std::string> absolute = AbsolutePath(asked);
  if (!absolute.ok()) return absolute.status();

  writer.directory_ = *std::move(absolute);
  writer.name_ = std::string(name);
  writer.step_ = step;
  writer.token_ = token;
  writer.temporary_path_ = absl::StrCat(writer.directory_, "/.", stem, writer.suffix_, ".", extension);
  writer.final_path_ = absl::StrCat(writer.directory_, "/", file);
  if (absl::Status removed = writer.RemoveStale(); !removed.ok()) return removed;
  if (absl::Status created = writer.CreateTemporary(); !created.ok()) return created;
  return writer;
}

absl::Status CheckpointWriter::CreateTemporary() {
  lock_fd_ = open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (lock_fd_ < 0) return FileError(errno, "create", temporary_path_);
  // If the file system has no locks, files of writers without a catalogue are never removed.
  flock(lock_fd_, LOCK_EX | LOCK_NB);
  struct stat found = {};
  if (fstat(lock_fd_, &found) == 0 && found.st_nlink == 0) {
    // Removed between its creation and its lock.
    close(std::exchange(lock_fd_, -1));
    return FileError(EEXIST, "create", temporary_path_);
  }
  absl::Status status = CheckIsAlone();
  if (!status.ok()) Abandon();
  return status;
}

// Writers of other catalogues may have been granted the same token: each looks after it has created its file, so that
// one of two sees the other.
absl::Status CheckpointWriter::CheckIsAlone() const {
  struct stat found = {};
  if (lstat(final_path_.c_str(), &found) == 0) return FileError(EEXIST, "create", final_path_);
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory_);
  if (!names.ok()) return names.status();
  const std::string own = temporary_path_.substr(directory_.size() + 1);
  const size_t extension = own.rfind(suffix_) + suffix_.size();
  const std::string same_stem = own.substr(0, extension - suffix_.size() + 1);
  const std::string same_end = absl::StrCat(kPartial, own.substr(extension));
  for (const std::string& name : *names) {
    if (name != own && absl::StartsWith(name, same_stem) && absl::EndsWith(name, same_end))
      return FileError(EEXIST, "create", absl::StrCat(final_path_, ", which becomes of ", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckpointWriter::GreatestToken(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> files = ListDirectory(directory.empty() ? "." : directory);
  if (absl::IsNotFound(files.status())) return 0;
  if (!files.ok()) return files.status();
  std::vector<uint64_t> tokens;
  for (const std::string& file : *files) tokens.push_back(TokenOfFile(file));
  std::sort(tokens.begin(), tokens.end());
  uint64_t greatest = 0;
  for (const uint64_t token : tokens) {
    if (token - greatest > kMostLeap) break;
    greatest = token;
  }
  return greatest;
}

CheckpointWriter::~CheckpointWriter() { Abandon(); }

CheckpointWriter::CheckpointWriter(CheckpointWriter&& other) noexcept { *this = std::move(other); }

CheckpointWriter& CheckpointWriter::operator=(CheckpointWriter&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  directory_ = std::move(other.directory_);
  name_ = std::move(other.name_);
  step_ = other.step_;
  token_ = other.token_;
  temporary_path_ = std::move(other.temporary_path_);
  final_path_ = std::move(other.final_path_);
  suffix_ = std::move(other.suffix_);
  lock_fd_ = std::exchange(other.lock_fd_, -1);
  return *this;
}

absl::Status CheckpointWriter::RemoveStale() const {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory_);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    uint64_t token = 0;
    if (!TokenOfTemporary(name, name_, suffix_, &token) || token >= token_) continue;
    const std::string path = absl::StrCat(directory_, "/", name);
    if (suffix_ == absl::StrCat(".", kNoCatalogue, kPartial) && IsInUse(path)) continue;
    const absl::Status removed = Remove(path);
    if (!removed.ok() && IsForeign(path)) continue;
    if (!removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Checkpoint> CheckpointWriter::Finish(absl::string_view job, uint64_t epoch) {
  if (lock_fd_ < 0)
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", final_path_, " is finished or abandoned already"));
  absl::StatusOr<v1::Checkpoint> checkpoint = Publish(job, epoch);
  if (!checkpoint.ok()) {
    Abandon();
  } else {
    close(std::exchange(lock_fd_, -1));
  }
  return checkpoint;
}

absl::Status CheckpointWriter::CheckWritten() const {
  struct stat found = {};
  // If it is gone, the reader says so.
  if (lstat(temporary_path_.c_str(), &found) != 0) return absl::OkStatus();
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a checkpoint is one file, and of ", temporary_path_, " something else was made"));
  }
  if (found.st_size > 0) return absl::OkStatus();
  std::string other;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory_);
  const std::string own = temporary_path_.substr(directory_.size() + 1);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (name != own && absl::StartsWith(name, own)) other = absl::StrCat("; there is ", directory_, "/", name);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("nothing was written to ", temporary_path_, ", so there is no checkpoint", other));
}

absl::StatusOr<v1::Checkpoint> CheckpointWriter::Publish(absl::string_view job, uint64_t epoch) {
  if (absl::Status written = CheckWritten(); !written.ok()) return written;
  const absl::StatusOr<FileDigest> digest = SyncAndDigestFile(temporary_path_);
  if (absl::IsNotFound(digest.status())) {
    return absl::NotFoundError(
        absl::StrCat(digest.status().message(), "; a writer that was granted a greater token removes it"));
  }
  if (!digest.ok()) return digest.status();
  Manifest manifest;
  manifest.job = std::string(job);
  v1::Checkpoint& checkpoint = manifest.checkpoint;
  checkpoint.set_name(name_);
  checkpoint.set_step(step_);
  checkpoint.set_token(token_);
  checkpoint.set_path(final_path_);
  checkpoint.set_size_bytes(digest->size_bytes);
  checkpoint.set_sha256(digest->sha256);
  checkpoint.set_epoch(epoch);
  if (absl::Status renamed = RenameWithoutReplacing(temporary_path_, final_path_); !renamed.ok()) return renamed;
  absl::Status written = WriteManifest(
      manifest, absl::StrCat(directory_, "/.", ManifestPath(final_path_.substr(directory_.size() + 1)), suffix_));
  if (written.ok()) written = SyncDirectory(directory_);
  if (!written.ok()) {
    Discard();
    return written;
  }
  return checkpoint;
}

void CheckpointWriter::Discard() {
  unlink(ManifestPath(final_path_).c_str());
  unlink(final_path_.c_str());
}

void CheckpointWriter::Abandon() {
  if (lock_fd_ < 0) return;
  Remove(temporary_path_).IgnoreError();
  close(std::exchange(lock_fd_, -1));
}

absl::Status CheckpointWriter::Fail(absl::string_view cause) {
  struct statvfs file_system = {};
  // Asked before the file is removed, which makes room.
  const bool known = statvfs(directory_.c_str(), &file_system) == 0;
  Abandon();
  const uint64_t free_bytes = uint64_t{file_system.f_bavail} * file_system.f_frsize;
  if (known && free_bytes < kFullBelowBytes) return FileError(ENOSPC, "write", temporary_path_);
  return absl::UnavailableError(absl::StrCat("cannot write ", temporary_path_, ": ", cause));
}

}  // namespace farandole
