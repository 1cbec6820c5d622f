#ifndef FARANDOLE_SERVER_AUDIT_AUDIT_CHAIN_H_
#define FARANDOLE_SERVER_AUDIT_AUDIT_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace farandole {

// JSON lines in files of a directory, NAME-000001.jsonl and so on, the last of which grows. Each line has `seq`, its
// number from 1 on, and `prev`, the SHA-256 of the line before it (hexadecimal; "" for the first): no line can be
// changed or taken out without a trace in the next one. Files are for their owner only. One thread at a time.
class AuditChain {
 public:
  struct Bounds {
    size_t file_bytes = 16 << 20;
    // The oldest file goes when there are more.
    size_t files = 16;
    // Lines survive a loss of power, not only the end of the process.
    bool is_synced = false;
  };

  // Goes on where the files end. The beginning of a last line, which a killed process has left, is cut off, and a line
  // tells that. UNAVAILABLE: the files cannot be read or written (the system's words).
  static absl::StatusOr<AuditChain> Open(std::string directory, std::string name, Bounds bounds);
  AuditChain(AuditChain&& other) noexcept { Swap(&other); }
  AuditChain& operator=(AuditChain&& other) noexcept {
    Swap(&other);
    return *this;
  }
  ~AuditChain();

  // Adds a line of these fields behind `time`, `seq` and `prev`. UNAVAILABLE: it cannot be written; nothing of it
  // stays, or the next line tells of what has stayed.
  absl::Status Add(const nlohmann::ordered_json& fields);

 private:
  AuditChain() = default;
  void Swap(AuditChain* other);
  absl::Status OpenLast();
  absl::Status OpenFile(uint64_t number);
  absl::Status Mend();
  absl::Status Rotate();
  std::string PathOf(uint64_t number) const;

  std::string directory_;
  std::string name_;
  Bounds bounds_;
  int file_ = -1;
  uint64_t number_ = 0;
  size_t bytes_ = 0;
  // The number and the hash of the last line.
  uint64_t seq_ = 0;
  std::string hash_;
  bool is_torn_ = false;
};

// The numbers of a chain's files, rising. UNAVAILABLE: the directory cannot be read; NOT_FOUND: it is not there.
absl::StatusOr<std::vector<uint64_t>> FilesOfChain(const std::string& directory, const std::string& name);
// The path of one.
std::string ChainFile(const std::string& directory, const std::string& name, uint64_t number);

// The state of a chain.
struct ChainVerdict {
  uint64_t lines = 0;
  // Above 1: the files with the lines before it are gone, as they go when there are more than Bounds::files.
  uint64_t first_seq = 0;
  uint64_t last_seq = 0;
  // The SHA-256 of the last line: kept elsewhere, it shows later whether lines were cut off behind it.
  std::string last_hash;
  // The first line that is not as its chain wants it: "FILE:LINE: why"; "": none.
  std::string broken;
  // A last line without its end, as of a process that was killed, or writes it now.
  bool is_torn = false;
};
// Reads all files. Errors: as FilesOfChain's.
absl::StatusOr<ChainVerdict> VerifyChain(const std::string& directory, const std::string& name);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_AUDIT_CHAIN_H_
