#include "deploy/cli/coordinators/coordinator_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "deploy/launcher/environment/options.h"
#include "server/running_coordinator.h"

namespace farandole {
namespace {

// Signed tokens are long.
constexpr size_t kMostTokenBytes = 8192;
constexpr size_t kMostCertificateBytes = 1 << 20;

absl::StatusOr<std::string> ReadCertificates(const std::string& ca_file) {
  return ca_file.empty() ? std::string() : ReadSmallFile(ca_file, kMostCertificateBytes);
}

CoordinatorAddress AddressOf(const std::string& address) {
  CoordinatorAddress where;
  where.address = address;
  where.coordinator_users = launcher::CoordinatorUsers();
  return where;
}

absl::StatusOr<CoordinatorAddress> ReadStateDirectory(const std::string& state_dir, const std::string& ca_file) {
  const absl::StatusOr<RunningCoordinator> running = FindRunningCoordinator(state_dir);
  if (!running.ok()) return running.status();
  CoordinatorAddress where = AddressOf(running->address);
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
  command
      ->add_option("--cert", source->cert_file,
                   "Certificate (PEM) that stands for a token, where the coordinator takes certificates; with --key")
      ->type_name("FILE");
  command->add_option("--key", source->key_file, "That certificate's key (PEM)")->type_name("FILE");
  command->add_option("--state-dir", source->state_dir, "The state directory of a coordinator that runs here")
      ->type_name("DIR");
}

absl::StatusOr<CoordinatorAddress> ReadCoordinatorAddress(const CoordinatorSource& source) {
  if (source.token_file.empty() && source.cert_file.empty() && source.key_file.empty()) {
    return absl::InvalidArgumentError(
        "--coordinator needs a --token-file with a token that it accepts, or a certificate: --cert and --key");
  }
  if (absl::Status status = launcher::CheckCertificateOptions(source.cert_file, source.key_file, source.ca_file);
      !status.ok()) {
    return status;
  }
  CoordinatorAddress where = AddressOf(source.coordinator);
  if (!source.token_file.empty()) {
    const absl::StatusOr<std::string> token = ReadSmallFile(source.token_file, kMostTokenBytes);
    if (!token.ok()) return token.status();
    where.token = std::string(absl::StripAsciiWhitespace(*token));
    where.token_origin = source.token_file;
    if (where.token.empty() && !source.cert_file.empty())
      return absl::UnauthenticatedError(absl::StrCat("the token file ", source.token_file, " is empty"));
  }
  const absl::StatusOr<std::string> certificates = ReadCertificates(source.ca_file);
  if (!certificates.ok()) return certificates.status();
  where.tls_ca_pem = *certificates;
  where.tls_ca_origin = source.ca_file;
  if (source.cert_file.empty()) return where;
  absl::Status read = ReadOwnCertificate(source.cert_file, source.key_file, &where);
  if (!read.ok()) return read;
  return where;
}

absl::Status CheckNamesCoordinator(const CoordinatorSource& source) {
  if (!source.coordinator.empty()) return absl::OkStatus();
  const std::pair<const std::string*, const char*> files[] = {
      {&source.token_file, "--token-file"}, {&source.cert_file, "--cert"}, {&source.key_file, "--key"}};
  for (const auto& [file, flag] : files) {
    if (!file->empty()) return absl::InvalidArgumentError(absl::StrCat(flag, " belongs to a --coordinator"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundCoordinators> FindCoordinators(const CoordinatorSource& source) {
  FoundCoordinators found;
  if (!source.coordinator.empty()) {
    if (!source.state_dir.empty())
      return absl::InvalidArgumentError("--state-dir and --coordinator exclude each other");
    absl::StatusOr<CoordinatorAddress> address = ReadCoordinatorAddress(source);
    if (!address.ok()) return address.status();
    found.coordinators.push_back(*std::move(address));
    return found;
  }
  if (absl::Status status = CheckNamesCoordinator(source); !status.ok()) return status;
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
  if (absl::Status status = CheckStateHome(source.state_home); !status.ok()) return status;
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
