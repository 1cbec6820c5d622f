#ifndef FARANDOLE_SERVER_AUDIT_AUDIT_TAIL_H_
#define FARANDOLE_SERVER_AUDIT_AUDIT_TAIL_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace farandole {

// Lines of a chain of the audit log, the newest first.
struct AuditPart {
  std::vector<nlohmann::ordered_json> lines;
  // The place before which the reading goes on; "": there is no earlier line.
  std::string next;
  // How many bytes of the files were read.
  size_t read_bytes = 0;
};

struct AuditTailOptions {
  // Lines of the part, at least 1.
  size_t most_lines = 100;
  // To be read of the files, at least 64 KiB, which no line has. A part may therefore have few lines, or none, where
  // more are to come.
  size_t most_bytes = 1 << 20;
  // The lines that are wanted; null: all.
  std::function<bool(const nlohmann::ordered_json&)> wants = nullptr;
};

// Reads the chain `name` in `directory` backwards from `place` on: AuditPart::next of an earlier call, or "" for the
// end. May be called while the chain is written. Leaves out all that is no line of the log.
//   INVALID_ARGUMENT  `place` is none
//   NOT_FOUND         there is no directory
//   UNAVAILABLE       a file cannot be read (the system's words)
absl::StatusOr<AuditPart> ReadAuditTail(const std::string& directory, const std::string& name, const std::string& place,
                                        const AuditTailOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_AUDIT_TAIL_H_
