#include "server/audit/audit_chain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "base/text/time_text.h"
#include "checkpoint/durable_file.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSuffix[] = ".jsonl";

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("audit: cannot ", what, " ", path, ": ", strerror(error)));
}

std::string HashOf(absl::string_view line) { return absl::BytesToHexString(Sha256(line)); }

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  if (file.is_open()) content << file.rdbuf();
  if (!file.is_open() || file.bad()) return Failed("read", path, errno);
  return content.str();
}

// The names of a directory's files survive a loss of power.
absl::Status SyncNames(const std::string& directory) {
  const absl::Status synced = SyncDirectory(directory);
  return synced.ok() ? synced : absl::UnavailableError(absl::StrCat("audit: ", synced.message()));
}

// The last line that has its end, and how many bytes come behind it.
std::pair<std::string, size_t> LastLine(const std::string& content) {
  const size_t end = content.rfind('\n');
  if (end == std::string::npos) return {"", content.size()};
  const size_t before = end == 0 ? std::string::npos : content.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return {content.substr(begin, end - begin), content.size() - end - 1};
}

}  // namespace

std::string ChainFile(const std::string& directory, const std::string& name, uint64_t number) {
  return absl::StrFormat("%s/%s-%06d%s", directory, name, number, kSuffix);
}

absl::StatusOr<std::vector<uint64_t>> FilesOfChain(const std::string& directory, const std::string& name) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string file = entry.path().filename().string();
    absl::string_view rest = file;
    uint64_t number = 0;
    if (absl::ConsumePrefix(&rest, absl::StrCat(name, "-")) && absl::ConsumeSuffix(&rest, kSuffix) &&
        absl::SimpleAtoi(rest, &number)) {
      numbers.push_back(number);
    }
  }
  if (error == std::errc::no_such_file_or_directory)
    return absl::NotFoundError(absl::StrCat("audit: there is no directory ", directory));
  if (error) return Failed("read", directory, error.value());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<AuditChain> AuditChain::Open(std::string directory, std::string name, Bounds bounds) {
  AuditChain chain;
  chain.directory_ = std::move(directory);
  chain.name_ = std::move(name);
  chain.bounds_ = bounds;
  const bool is_made = mkdir(chain.directory_.c_str(), 0700) == 0;
  if (!is_made && errno != EEXIST) return Failed("make", chain.directory_, errno);
  // mkdir takes the umask's bits away; chmod does not.
  if (is_made && chmod(chain.directory_.c_str(), 0700) != 0) return Failed("make", chain.directory_, errno);
  // Also where an earlier process has made it: that may have ended before it synced.
  if (absl::Status status = bounds.is_synced ? SyncNames(chain.directory_ + "/..") : absl::OkStatus(); !status.ok())
    return status;
  if (absl::Status status = chain.OpenLast(); !status.ok()) return status;
  return chain;
}

AuditChain::~AuditChain() {
  if (file_ >= 0) close(file_);
}

void AuditChain::Swap(AuditChain* other) {
  std::swap(directory_, other->directory_);
  std::swap(name_, other->name_);
  std::swap(bounds_, other->bounds_);
  std::swap(file_, other->file_);
  std::swap(number_, other->number_);
  std::swap(bytes_, other->bytes_);
  std::swap(seq_, other->seq_);
  std::swap(hash_, other->hash_);
  std::swap(is_torn_, other->is_torn_);
}

std::string AuditChain::PathOf(uint64_t number) const { return ChainFile(directory_, name_, number); }

absl::Status AuditChain::OpenLast() {
  const absl::StatusOr<std::vector<uint64_t>> numbers = FilesOfChain(directory_, name_);
  if (!numbers.ok()) return numbers.status();
  // The last file may be empty, or hold nothing but a torn line: the chain goes on from the one before.
  for (auto number = numbers->rbegin(); number != numbers->rend() && hash_.empty(); ++number) {
    const absl::StatusOr<std::string> content = ReadAll(PathOf(*number));
    if (!content.ok()) return content.status();
    const auto [line, torn] = LastLine(*content);
    if (number == numbers->rbegin()) is_torn_ = torn > 0;
    if (line.empty()) continue;
    hash_ = HashOf(line);
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    // Where somebody has changed the line, `verify` names it.
    if (json.is_object() && json.contains("seq") && json["seq"].is_number_unsigned()) seq_ = json["seq"];
  }
  return OpenFile(numbers->empty() ? 1 : numbers->back());
}

absl::Status AuditChain::OpenFile(uint64_t number) {
  const std::string path = PathOf(number);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Failed("write", path, errno);
  struct stat facts = {};
  if (fstat(file, &facts) != 0 || fchmod(file, 0600) != 0) {
    close(file);
    return Failed("write", path, errno);
  }
  // Otherwise the file may be gone with all of its lines. The file of before stays in use, and the next line tries
  // again.
  if (absl::Status status = bounds_.is_synced ? SyncNames(directory_) : absl::OkStatus(); !status.ok()) {
    close(file);
    return status;
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  number_ = number;
  bytes_ = static_cast<size_t>(facts.st_size);
  return is_torn_ ? Mend() : absl::OkStatus();
}

absl::Status AuditChain::Mend() {
  const std::string path = PathOf(number_);
  const absl::StatusOr<std::string> content = ReadAll(path);
  if (!content.ok()) return content.status();
  const size_t torn = LastLine(*content).second;
  if (ftruncate(file_, static_cast<off_t>(content->size() - torn)) != 0) return Failed("mend", path, errno);
  bytes_ = content->size() - torn;
  is_torn_ = false;
  return Add(Json{{"method", "audit.mend"},
                  {"outcome", "mended"},
                  {"reason", absl::StrCat("the process ended while it wrote a line, of which ", torn,
                                          " bytes were there; they were cut off")}});
}

absl::Status AuditChain::Rotate() {
  if (absl::Status status = OpenFile(number_ + 1); !status.ok()) return status;
  const absl::StatusOr<std::vector<uint64_t>> numbers = FilesOfChain(directory_, name_);
  if (!numbers.ok()) return numbers.status();
  for (size_t i = 0; i + bounds_.files < numbers->size(); ++i) {
    const std::string path = PathOf((*numbers)[i]);
    if (unlink(path.c_str()) != 0) return Failed("remove", path, errno);
  }
  return absl::OkStatus();
}

absl::Status AuditChain::Add(const Json& fields) {
  if (is_torn_) {
    if (absl::Status status = Mend(); !status.ok()) return status;
  }
  if (bytes_ >= bounds_.file_bytes) {
    if (absl::Status status = Rotate(); !status.ok()) return status;
  }
  Json json;
  json["time"] = UtcTextMs(absl::Now());
  json["seq"] = seq_ + 1;
  json["prev"] = hash_;
  json.update(fields);
  const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string written = line + "\n";
  for (size_t done = 0; done < written.size();) {
    const ssize_t count = write(file_, written.data() + done, written.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = errno;
      is_torn_ = done > 0 && ftruncate(file_, static_cast<off_t>(bytes_)) != 0;
      return Failed("write", PathOf(number_), error);
    }
    done += static_cast<size_t>(count);
  }
  bytes_ += written.size();
  ++seq_;
  hash_ = HashOf(line);
  if (bounds_.is_synced && fdatasync(file_) != 0) return Failed("sync", PathOf(number_), errno);
  return absl::OkStatus();
}

absl::StatusOr<ChainVerdict> VerifyChain(const std::string& directory, const std::string& name) {
  const absl::StatusOr<std::vector<uint64_t>> numbers = FilesOfChain(directory, name);
  if (!numbers.ok()) return numbers.status();
  ChainVerdict verdict;
  for (const uint64_t number : *numbers) {
    const std::string path = ChainFile(directory, name, number);
    std::ifstream file(path, std::ios::binary);
    if (!file.is_open()) return Failed("read", path, errno);
    std::string line;
    for (uint64_t at = 1; std::getline(file, line); ++at) {
      if (file.eof()) {
        verdict.is_torn = true;
        if (number == numbers->back()) break;
      }
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      const bool has_fields = json.is_object() && json.contains("seq") && json["seq"].is_number_unsigned() &&
                              json.contains("prev") && json["prev"].is_string();
      const uint64_t seq = has_fields ? json["seq"].get<uint64_t>() : 0;
      std::string why;
      if (!has_fields) {
        why = "it is no line of the log";
      } else if (verdict.lines == 0 && number == 1 && seq != 1) {
        why = absl::StrCat("its number is ", seq, ", and the first line of the first file has number 1");
      } else if (verdict.lines > 0 && seq != verdict.last_seq + 1) {
        why = absl::StrCat("its number is ", seq, ", and that of the line before it ", verdict.last_seq);
      } else if (verdict.lines > 0 ? json["prev"] != verdict.last_hash : (seq == 1) != (json["prev"] == "")) {
        why = absl::StrCat("line ", verdict.last_seq,
                           " before it was changed after this one was written, or this one was");
      }
      if (!why.empty()) {
        verdict.broken = absl::StrCat(path, ":", at, ": ", why);
        return verdict;
      }
      if (verdict.lines == 0) verdict.first_seq = seq;
      ++verdict.lines;
      verdict.last_seq = seq;
      verdict.last_hash = HashOf(line);
    }
  }
  return verdict;
}

}  // namespace farandole
