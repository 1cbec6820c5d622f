#ifndef FARANDOLE_DEPLOY_CLI_ACCESS_TOKEN_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_ACCESS_TOKEN_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/coordinator_source.h"

namespace farandole {

// `farandole token create|list|rotate|revoke` and `farandole tenant create|list`: they ask one coordinator, by default
// that of `farandole serve`.
struct TokenCommandOptions {
  CoordinatorSource source;
  std::string tenant;
  std::string role;
  std::string label;
  std::string id;
  // "30d", "12h"; "": the coordinator's default, of an overlap none.
  std::string lifetime;
  std::string overlap;
  // Revoke: also what was made or rotated with it, in the last `since`; "": ever.
  bool and_made_with_it = false;
  std::string since;
  uint32_t max_jobs = 0;
  uint32_t max_workers = 0;
  uint64_t max_store_bytes = 0;
  std::string cohort;
  uint32_t weight = 0;
  uint32_t borrow = 0;
  // Where a token is written, for its owner only; "": to `out`.
  std::string out_file;
  bool json = false;
};

// The coordinator that the options name, else that of `farandole serve`. NOT_FOUND: it does not run.
absl::StatusOr<CoordinatorSession> OpenServed(CoordinatorSource source);

// "90d", "12h30m", "45s". INVALID_ARGUMENT: it is none, or negative.
absl::StatusOr<absl::Duration> ParseSpan(const std::string& option, const std::string& text);

// Each prints its result to `out`, or why there is none to `err`, and returns the exit code: 0 done, 1 failed, 2 the
// command line is wrong.
int CreateToken(const TokenCommandOptions& options, std::ostream& out, std::ostream& err);
int ListTokens(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);
int RotateToken(const TokenCommandOptions& options, std::ostream& out, std::ostream& err);
int RevokeToken(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);
int CreateTenant(const TokenCommandOptions& options, std::ostream& out, std::ostream& err);
int ListTenants(const TokenCommandOptions& options, absl::Time now, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_ACCESS_TOKEN_COMMAND_H_
