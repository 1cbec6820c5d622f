#include "deploy/cli/coordinators/coordinator_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "server/running_coordinator.h"

namespace farandole {
namespace {

// Signed tokens are long.
constexpr size_t kMostTokenBytes = 8192;
constexpr size_t kMostCertificateBytes = 1 << 20;

absl::StatusOr<std::string> ReadCertificates(const std::string& ca_file) {
  return ca_file.empty() ? std::string() : ReadSmallFile(ca_file, kMostCertificateBytes);
}

absl::StatusOr<CoordinatorAddress> ReadStateDirectory(const std::string& state_dir, const std::string& ca_file) {
  const absl::StatusOr<RunningCoordinator> running = FindRunningCoordinator(state_dir);
  if (!running.ok()) return running.status();
  CoordinatorAddress where;
  where.address = running->address;
  where.token = running->token;
  where.token_origin = running->token_file;
  where.tls_ca_pem = running->ca_pem;
  where.tls_ca_origin = running->ca_file;
  if (ca_file.empty()) return where;
  absl::StatusOr<std::string> certificates = ReadCertificates(ca_file);
  if (!certificates.ok()) return certificates.status();
  where.tls_ca_pem = *std::move(certificates);
  where.tls_ca_origin = ca_file;
  return where;
}

// That of `farandole serve`, and those of the jobs of `farandole run`.
std::vector<std::string> DefaultDirectories(const std::string& state_home) {
  std::vector<std::string> directories = {ServeDirectory(state_home)};
  const std::string jobs = JobsDirectory(state_home);
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(jobs);
  if (!names.ok()) return directories;  // nothing was ever run
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) directories.push_back(absl::StrCat(jobs, "/", name));
  return directories;
}

}  // namespace

void AddCoordinatorOptions(CLI::App* command, CoordinatorSource* source) {
  command
      ->add_option("--coordinator", source->coordinator,
                   "A running coordinator; by default all that run in $XDG_STATE_HOME/farandole/jobs/* and "
                   "$XDG_STATE_HOME/farandole/serve (~/.local/state/...)")
      ->type_name("HOST:PORT");
  command->add_option("--token-file", source->token_file, "The file with a token that the coordinator knows")
      ->type_name("FILE");
  command->add_option("--ca", source->ca_file, "CA certificates (PEM) for the coordinator's certificate; turns TLS on")
      ->type_name("FILE");
  command->add_option("--state-dir", source->state_dir, "The state directory of a coordinator that runs here")
      ->type_name("DIR");
}

absl::StatusOr<CoordinatorAddress> ReadCoordinatorAddress(const std::string& coordinator, const std::string& token_file,
                                                          const std::string& ca_file) {
  if (token_file.empty())
    return absl::InvalidArgumentError("--coordinator needs a --token-file with a token that it accepts");
  const absl::StatusOr<std::string> token = ReadSmallFile(token_file, kMostTokenBytes);
  if (!token.ok()) return token.status();
  const absl::StatusOr<std::string> certificates = ReadCertificates(ca_file);
  if (!certificates.ok()) return certificates.status();
  CoordinatorAddress where;
  where.address = coordinator;
  where.token = std::string(absl::StripAsciiWhitespace(*token));
  where.token_origin = token_file;
  where.tls_ca_pem = *certificates;
  where.tls_ca_origin = ca_file;
  return where;
}

absl::StatusOr<FoundCoordinators> FindCoordinators(const CoordinatorSource& source) {
  FoundCoordinators found;
  if (!source.coordinator.empty()) {
    if (!source.state_dir.empty())
      return absl::InvalidArgumentError("--state-dir and --coordinator exclude each other");
    absl::StatusOr<CoordinatorAddress> address =
        ReadCoordinatorAddress(source.coordinator, source.token_file, source.ca_file);
    if (!address.ok()) return address.status();
    found.coordinators.push_back(*std::move(address));
    return found;
  }
  if (!source.token_file.empty()) return absl::InvalidArgumentError("--token-file belongs to a --coordinator");
  if (!source.state_dir.empty()) {
    absl::StatusOr<CoordinatorAddress> address = ReadStateDirectory(source.state_dir, source.ca_file);
    const bool is_there = absl::IsNotFound(address.status()) && ListDirectory(source.state_dir).ok();
    if (!address.ok() && !is_there) return address.status();
    if (is_there) {
      found.unattended.push_back(source.state_dir);
    } else {
      found.coordinators.push_back(*std::move(address));
    }
    return found;
  }
  for (const std::string& directory : DefaultDirectories(source.state_home)) {
    absl::StatusOr<CoordinatorAddress> address = ReadStateDirectory(directory, source.ca_file);
    if (address.ok()) {
      found.coordinators.push_back(*std::move(address));
    } else if (absl::IsNotFound(address.status())) {
      found.unattended.push_back(directory);
    } else {
      found.problems.push_back(address.status());
    }
  }
  return found;
}

}  // namespace farandole
