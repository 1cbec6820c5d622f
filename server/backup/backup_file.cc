#include "server/backup/backup_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"

namespace farandole {
namespace {

constexpr absl::string_view kFormat = "farandole-backup 1\n";
constexpr absl::string_view kAnyFormat = "farandole-backup ";
constexpr size_t kSizeBytes = 4;
// A write to disk.
constexpr size_t kBufferBytes = 1 << 20;

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(error)));
}

std::string SizeText(size_t size) {
  std::string text(kSizeBytes, '\0');
  for (size_t i = 0; i < kSizeBytes; ++i) text[i] = static_cast<char>(size >> (8 * i));
  return text;
}

size_t ParseSize(absl::string_view text) {
  size_t size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) size |= static_cast<size_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  return size;
}

// One file's bytes in their order, but for the checksum at its end.
class Source {
 public:
  explicit Source(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  absl::Status Open() {
    struct stat facts = {};
    if (stat(path_.c_str(), &facts) != 0) {
      return errno == ENOENT ? absl::NotFoundError(absl::StrCat("there is no backup ", path_))
                             : Failed("read", path_, errno);
    }
    if (!file_.is_open() || !S_ISREG(facts.st_mode))
      return Failed("read", path_, S_ISDIR(facts.st_mode) ? EISDIR : EIO);
    const auto size = static_cast<uint64_t>(facts.st_size);
    left_ = size - std::min<uint64_t>(size, kSha256Bytes);
    const absl::StatusOr<std::string> format = Take(std::min<uint64_t>(left_, kFormat.size()));
    if (!format.ok()) return format.status();
    if (*format == kFormat) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StartsWith(*format, kAnyFormat)
            ? absl::StrCat(path_, " is a backup of a format that this farandole does not know: take a later version")
            : absl::StrCat(path_, " is no backup of farandole"));
  }

  uint64_t left() const { return left_; }
  absl::StatusOr<std::string> Take(size_t bytes) {
    if (bytes > left_) return Damaged("it is cut off");
    std::string taken = Read(bytes);
    if (taken.size() < bytes) return Failed("read", path_, EIO);
    left_ -= bytes;
    sha256_.Add(taken);
    return taken;
  }
  // Behind the last byte: 32 bytes, which are those of all before them.
  absl::StatusOr<std::string> TakeSha256() {
    const std::string found = Read(kSha256Bytes);
    std::string expected = sha256_.Finish();
    if (found != expected) return Damaged("its SHA-256 is not that of its content");
    return expected;
  }
  absl::Status Damaged(absl::string_view how) const {
    return absl::DataLossError(absl::StrCat("backup ", path_, " is damaged: ", how));
  }

 private:
  std::string Read(size_t bytes) {
    std::string taken(bytes, '\0');
    file_.read(taken.data(), static_cast<std::streamsize>(bytes));
    taken.resize(static_cast<size_t>(file_.gcount()));
    return taken;
  }

  const std::string path_;
  std::ifstream file_;
  uint64_t left_ = 0;
  RunningSha256 sha256_;
};

absl::StatusOr<v1::BackupPart> NextPart(Source* source) {
  const absl::StatusOr<std::string> size = source->Take(kSizeBytes);
  if (!size.ok()) return size.status();
  if (ParseSize(*size) > kMostPartBytes) return source->Damaged("a part is too large");
  const absl::StatusOr<std::string> bytes = source->Take(ParseSize(*size));
  if (!bytes.ok()) return bytes.status();
  v1::BackupPart part;
  if (!part.ParseFromString(*bytes)) return source->Damaged("a part cannot be parsed");
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackupWriter>> BackupWriter::Create(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(absl::StrCat("backup ", path, " is there already: name another file"));
  }
  std::unique_ptr<BackupWriter> writer(new BackupWriter(path));
  // One of a killed backup may have another mode.
  unlink(writer->partial().c_str());
  writer->file_ = open(writer->partial().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (writer->file_ < 0) return Failed("write", writer->partial(), errno);
  absl::Status begun = writer->Write(kFormat);
  if (!begun.ok()) return begun;
  return writer;
}

BackupWriter::~BackupWriter() {
  if (file_ < 0) return;
  close(file_);
  unlink(partial().c_str());
}

absl::Status BackupWriter::Add(const v1::BackupPart& part) {
  const std::string bytes = part.SerializeAsString();
  if (bytes.size() > kMostPartBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a row of ", bytes.size(), " bytes is larger than ", kMostPartBytes, ", the most of a backup"));
  }
  if (absl::Status status = Write(SizeText(bytes.size())); !status.ok()) return status;
  return Write(bytes);
}

absl::Status BackupWriter::Write(absl::string_view bytes) {
  sha256_.Add(bytes);
  absl::StrAppend(&buffer_, bytes);
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status BackupWriter::Flush() {
  absl::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed("write", partial(), written < 0 ? errno : ENOSPC);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::string> BackupWriter::Finish() {
  std::string sha256 = sha256_.Finish();
  buffer_ += sha256;
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  if (fsync(file_) != 0) return Failed("write", partial(), errno);
  // Not over one that has come meanwhile.
  if (absl::Status renamed = RenameWithoutReplacing(partial(), path_); !renamed.ok()) return renamed;
  close(std::exchange(file_, -1));
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  if (absl::Status synced = SyncDirectory(folder); !synced.ok()) return synced;
  return sha256;
}

absl::StatusOr<BackupFacts> ReadBackup(const std::string& path,
                                       const std::function<absl::Status(const v1::BackupPart&)>& visit) {
  Source source(path);
  if (absl::Status opened = source.Open(); !opened.ok()) return opened;
  BackupFacts facts;
  v1::BackupEnd end;
  bool has_end = false;
  uint64_t files = 0;
  while (source.left() > 0) {
    const absl::StatusOr<v1::BackupPart> part = NextPart(&source);
    if (!part.ok()) return part.status();
    if (has_end) return source.Damaged("there is something behind its end");
    if (part->has_head()) facts.head = part->head();
    if (part->has_row()) ++facts.rows;
    if (part->has_row()) facts.bytes += part->row().key().size() + part->row().value().size();
    if (part->has_file()) ++files;
    has_end = part->has_end();
    if (has_end) end = part->end();
    if (visit == nullptr || !(part->has_row() || part->has_file())) continue;
    if (absl::Status visited = visit(*part); !visited.ok()) return visited;
  }
  if (!has_end) return source.Damaged("it has no end");
  const absl::StatusOr<std::string> sha256 = source.TakeSha256();
  if (!sha256.ok()) return sha256.status();
  facts.sha256 = *sha256;
  if (end.rows() == facts.rows && end.files() == files) return facts;
  return source.Damaged(absl::StrCat("it has ", facts.rows, " rows and ", files, " files, and says that it has ",
                                     end.rows(), " and ", end.files()));
}

}  // namespace farandole
