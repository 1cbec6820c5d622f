#ifndef FARANDOLE_DEPLOY_CLI_ACCESS_QUOTA_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_ACCESS_QUOTA_COMMAND_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "deploy/cli/coordinators/coordinator_source.h"

namespace farandole {

// `farandole quota set|show`: they ask one coordinator, by default that of `farandole serve`.
struct QuotaCommandOptions {
  CoordinatorSource source;
  // Show: "" for all that the token may see.
  std::string tenant;
  // Fields that are not set stay as they are. 0: the default.
  std::optional<uint32_t> max_jobs;
  std::optional<uint32_t> max_workers;
  // Of its rows in the coordinator's store.
  std::optional<uint64_t> max_store_bytes;
  std::optional<std::string> cohort;
  std::optional<uint32_t> weight;
  std::optional<uint32_t> borrow;
  bool json = false;
};

// Each prints its result to `out`, or why there is none to `err`, and returns the exit code: 0 done, 1 failed, 2 the
// command line is wrong.
int SetQuota(const QuotaCommandOptions& options, std::ostream& out, std::ostream& err);
int ShowQuotas(const QuotaCommandOptions& options, std::ostream& out, std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_ACCESS_QUOTA_COMMAND_H_
