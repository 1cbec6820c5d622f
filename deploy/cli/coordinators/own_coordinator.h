#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_OWN_COORDINATOR_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_OWN_COORDINATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/output/job_directory.h"
#include "server/coordinator.h"

namespace farandole::launcher {

// The coordinator of one run, in the launcher's process, and the directory that it works in. For a run on this host
// alone it listens on loopback. For one over several hosts it listens on all addresses, and proves itself by a
// certificate made for this run: its key never leaves the process's memory, and the certificate, by which workers know
// it, lies in the job's directory as long as this object lives.
class OwnCoordinator {
 public:
  // `is_reachable`: for workers on other hosts as well.
  //   ALREADY_EXISTS, PERMISSION_DENIED, FAILED_PRECONDITION  the job's directory cannot be used (JobDirectory)
  //   others as Coordinator::Start
  static absl::StatusOr<std::unique_ptr<OwnCoordinator>> Start(const RunOptions& options,
                                                               const RunEnvironment& environment, bool is_reachable);
  ~OwnCoordinator();
  OwnCoordinator(const OwnCoordinator&) = delete;
  OwnCoordinator& operator=(const OwnCoordinator&) = delete;

  const std::string& job() const { return directory_.job(); }
  const std::string& state_directory() const { return directory_.path(); }
  // For workers of this host.
  std::string address() const { return coordinator_->address(); }
  std::string token_file() const { return coordinator_->token_file(); }
  // Where the run's credential is, for workers of this host, as long as this object lives. The launcher writes it.
  std::string credential_file() const { return state_directory() + "/credential"; }
  // "" on one host.
  const std::string& ca_file() const { return ca_file_; }
  std::string http_address() const { return coordinator_->http_address(); }
  // For workers of other hosts: HOST:PORT each, the likeliest first.
  const std::vector<std::string>& remote_addresses() const { return remote_addresses_; }
  std::string token() const { return coordinator_->token(); }
  const std::string& ca_pem() const { return ca_pem_; }
  // The launcher's own, once.
  CoordinatorSession TakeSession() { return *std::exchange(session_, std::nullopt); }

  void Drain(absl::Duration grace) { coordinator_->Drain(grace); }

 private:
  explicit OwnCoordinator(JobDirectory directory) : directory_(std::move(directory)) {}

  absl::Status StartReachable(CoordinatorOptions options);
  absl::Status StartWith(CoordinatorOptions options);

  JobDirectory directory_;
  std::unique_ptr<Coordinator> coordinator_;
  std::optional<CoordinatorSession> session_;
  std::string ca_pem_;
  std::string ca_file_;
  std::vector<std::string> remote_addresses_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_OWN_COORDINATOR_H_
