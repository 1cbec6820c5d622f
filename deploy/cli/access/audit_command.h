#ifndef FARANDOLE_DEPLOY_CLI_ACCESS_AUDIT_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_ACCESS_AUDIT_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace farandole {

// `farandole audit tail|verify`: reads the audit log of a state directory, whether or not a coordinator works there.
struct AuditCommandOptions {
  // "": that of `farandole serve` under `state_home`.
  std::string state_dir;
  std::string state_home;
  // The last so many lines of each kind; only one of the kinds.
  uint32_t lines = 20;
  bool only_changes = false;
  bool only_denials = false;
  bool json = false;
};

// Prints the last lines, by time. Exit codes: 0 done, 1 failed (`err` has why).
int TailAudit(const AuditCommandOptions& options, std::ostream& out, std::ostream& err);
// Exit codes: 0 the chains are whole, 1 one is not (the first broken line is named), or it cannot be read.
int VerifyAudit(const AuditCommandOptions& options, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_ACCESS_AUDIT_COMMAND_H_
