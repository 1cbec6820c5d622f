#include "deploy/cli/coordinators/own_coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/state_home.h"
#include "base/text/host_text.h"
#include "base/tls/certificate.h"
#include "deploy/cli/coordinators/earlier_run.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/launcher/environment/own_addresses.h"
#include "deploy/launcher/process/private_file.h"
#include "deploy/launcher/worker_hosts/local_worker_host.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace farandole::launcher {
namespace {

// Clocks of a cluster's hosts differ by less.
constexpr absl::Duration kClockSkew = absl::Hours(1);
// Longer than a run: a worker whose connection breaks proves the coordinator again. A short life would only limit the
// use of a stolen key, and the end of the process, which alone has it, does that sooner.
constexpr absl::Duration kCertificateLife = absl::Hours(24 * 366);

absl::StatusOr<JobDirectory> OpenDirectory(const RunOptions& options, const StateHome& state_home) {
  const std::string name = options.job.empty() ? DefaultJobName(options.command) : options.job;
  if (!options.state_dir.empty()) return JobDirectory::Open(options.state_dir, name);
  if (state_home.path.empty()) return absl::FailedPreconditionError(state_home.remark);
  if (!state_home.remark.empty()) {
    if (const absl::Status made = MakePrivateDirectory(state_home.path); !made.ok()) return made;
    std::fprintf(stderr, "%s: %s\n", options.program.c_str(), state_home.remark.c_str());
  }
  const std::string jobs = JobsDirectory(state_home.path);
  if (!options.job.empty()) return JobDirectory::Open(absl::StrCat(jobs, "/", name), name);
  absl::StatusOr<JobDirectory> opened = JobDirectory::OpenNext(jobs, name);
  if (opened.ok() && opened->job() != name) {
    std::fprintf(stderr, "%s: job '%s' is running already, so this run is job '%s', with checkpoints of its own\n",
                 options.program.c_str(), name.c_str(), opened->job().c_str());
  }
  return opened;
}

void PrepareLog(const std::string& program, bool verbose) {
  // The log must not come between the workers' lines on stdout.
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("farandole", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern(program + ": coordinator: %v");
  // Only --verbose shows its lines about the workers of an earlier run, which ended long ago.
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::off);
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnCoordinator>> OwnCoordinator::Start(const RunOptions& options,
                                                                      const RunEnvironment& environment,
                                                                      bool is_reachable) {
  PrepareLog(options.program, options.verbose);
  absl::StatusOr<JobDirectory> directory = OpenDirectory(options, environment.state_home);
  if (!directory.ok()) return directory.status();
  std::unique_ptr<OwnCoordinator> own(new OwnCoordinator(*std::move(directory)));
  CoordinatorOptions coordinator;
  coordinator.state_dir = own->state_directory();
  coordinator.http = options.http.empty() ? "127.0.0.1:0" : options.http;
  coordinator.job_loops = 1;
  // No worker of an earlier run can come back: each ended with its launcher, whose lock on the directory is ours now.
  coordinator.job.reattach_window = absl::ZeroDuration();
  coordinator.job.logs_beside_workers = true;
  if (options.max_slots != 0) coordinator.job.max_slots = options.max_slots;
  const int most = std::max(options.workers, options.max_workers);
  coordinator.job.max_workers = std::max(coordinator.job.max_workers, static_cast<uint32_t>(most));
  const absl::Status started =
      is_reachable ? own->StartReachable(std::move(coordinator)) : own->StartWith(std::move(coordinator));
  if (!started.ok()) {
    return absl::Status(started.code(),
                        absl::StrCat("the coordinator of this run cannot be started: ", started.message()));
  }
  absl::StatusOr<CoordinatorSession> session =
      CoordinatorSession::Open({own->address(), own->token(), own->token_file(), own->ca_pem(), ""});
  if (!session.ok()) return session.status();
  if (const absl::Status ended = EndEarlierRun(*session, own->job()); !ended.ok()) return ended;
  own->session_ = *std::move(session);
  if (!options.verbose) spdlog::set_level(spdlog::level::warn);
  return own;
}

OwnCoordinator::~OwnCoordinator() {
  if (!ca_file_.empty()) unlink(ca_file_.c_str());
  unlink(credential_file().c_str());
}

absl::Status OwnCoordinator::StartReachable(CoordinatorOptions options) {
  const OwnAddresses own = FindOwnAddresses();
  std::vector<std::string> names = {"localhost", OwnHostName(), "127.0.0.1", "::1"};
  names.insert(names.end(), own.routable.begin(), own.routable.end());
  names.insert(names.end(), own.loopback.begin(), own.loopback.end());
  const absl::Time now = absl::Now();
  const absl::StatusOr<Certificate> certificate = MakeCertificate(names, now - kClockSkew, now + kCertificateLife);
  if (!certificate.ok()) return certificate.status();
  options.listen = own.has_ipv6 ? "[::]:0" : "0.0.0.0:0";
  options.advertised_host = "127.0.0.1";
  options.tls_cert_pem = certificate->certificate_pem;
  options.tls_key_pem = certificate->key_pem;
  ca_pem_ = certificate->certificate_pem;
  // The name that `farandole job` looks for beside the address.
  const std::string ca_file = absl::StrCat(state_directory(), "/ca.pem");
  if (absl::Status written = WritePrivateFile(ca_file, ca_pem_); !written.ok()) return written;
  ca_file_ = ca_file;
  if (absl::Status started = StartWith(std::move(options)); !started.ok()) return started;
  int port = 0;
  if (!absl::SimpleAtoi(address().substr(address().rfind(':') + 1), &port)) {
    return absl::InternalError(absl::StrCat("it listens on no port: ", address()));
  }
  for (const std::string& name : own.routable) remote_addresses_.push_back(HostPort(name, port));
  remote_addresses_.push_back(HostPort(OwnHostName(), port));
  // For hosts that are this machine under another address. It proves itself there as well.
  remote_addresses_.push_back(HostPort("127.0.0.1", port));
  return absl::OkStatus();
}

absl::Status OwnCoordinator::StartWith(CoordinatorOptions options) {
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(options));
  if (!coordinator.ok()) return coordinator.status();
  coordinator_ = *std::move(coordinator);
  return absl::OkStatus();
}

}  // namespace farandole::launcher
