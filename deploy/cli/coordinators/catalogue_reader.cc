#include "deploy/cli/coordinators/catalogue_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "checkpoint/durable_file.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/cli/coordinators/coordinator_source.h"
#include "deploy/cli/coordinators/state_paths.h"
#include "farandole/v1/monitor.pb.h"
#include "server/store/offline_reader.h"

namespace farandole {
namespace {

namespace fs = std::filesystem;

// The rows under checkpoint/ of one coordinator's state directory.
absl::StatusOr<std::vector<CatalogueRow>> ReadStateDirectory(const std::string& state_dir, const std::string& job) {
  const absl::StatusOr<std::vector<StoreRow>> rows =
      ReadRowsOffline((fs::path(state_dir) / kStoreFolder).string(), "checkpoint/");
  if (!rows.ok()) return rows.status();
  std::vector<CatalogueRow> catalogue;
  for (const StoreRow& row : *rows) {
    // checkpoint/TENANT/JOB/NAME/STEP, where NAME may have '/' itself.
    const std::vector<std::string> parts = absl::StrSplit(row.key, absl::MaxSplits('/', 3));
    CatalogueRow entry;
    if (parts.size() != 4 || !entry.checkpoint.ParseFromString(row.value)) {
      return absl::DataLossError(
          absl::StrCat("store ", state_dir, "/", kStoreFolder, ": row ", row.key, " is not a checkpoint"));
    }
    entry.job = parts[2];
    if (job.empty() || entry.job == job) catalogue.push_back(std::move(entry));
  }
  return catalogue;
}

void Append(std::vector<CatalogueRow> rows, Catalogue* catalogue) {
  for (CatalogueRow& row : rows) catalogue->rows.push_back(std::move(row));
}

bool HasStore(const std::string& state_dir) {
  return !state_dir.empty() && fs::is_directory(fs::path(state_dir) / kStoreFolder);
}

// All state directories of `farandole run`, or the one of a job, and that of `farandole serve`.
absl::StatusOr<Catalogue> ReadOwnDirectories(const CatalogueSource& source) {
  const std::string& jobs_directory = source.jobs_directory;
  if (jobs_directory == JobsDirectory("")) return CheckStateHome("");
  std::vector<std::string> directories;
  std::error_code error;
  const std::string own = absl::StrCat(jobs_directory, "/", source.job);
  if (source.job.empty()) {
    for (const auto& entry : fs::directory_iterator(jobs_directory, error))
      directories.push_back(entry.path().string());
    // If nothing was ever run, there is nothing to list.
    if (error && error != std::errc::no_such_file_or_directory)
      return FileError(error.value(), "read directory", jobs_directory);
  } else if (fs::is_directory(own)) {
    directories.push_back(own);
  }
  if (HasStore(source.serve_directory)) directories.push_back(source.serve_directory);
  Catalogue catalogue;
  for (const std::string& directory : directories) {
    absl::StatusOr<std::vector<CatalogueRow>> rows = ReadStateDirectory(directory, source.job);
    if (rows.ok()) {
      Append(*std::move(rows), &catalogue);
    } else if (directory == own) {
      return rows.status();
    } else if (!absl::IsNotFound(rows.status())) {
      catalogue.problems.push_back(rows.status());
    }
  }
  if (!source.job.empty() && catalogue.rows.empty() && catalogue.problems.empty() && !fs::is_directory(own))
    return absl::NotFoundError(absl::StrCat("there is no job ", source.job, " in ", jobs_directory));
  return catalogue;
}

CoordinatorSource CoordinatorOf(const CatalogueSource& source) {
  return {source.coordinator, source.token_file, source.ca_file, source.cert_file, source.key_file, "", ""};
}

absl::StatusOr<Catalogue> AskCoordinator(const CatalogueSource& source) {
  absl::StatusOr<CoordinatorAddress> where = ReadCoordinatorAddress(CoordinatorOf(source));
  if (!where.ok()) return where.status();
  const absl::StatusOr<CoordinatorSession> session = CoordinatorSession::Open(*std::move(where));
  if (!session.ok()) return session.status();
  // By tenant and name; the tenant "" is the token's own.
  std::vector<std::pair<std::string, std::string>> jobs = {{"", source.job}};
  if (source.job.empty()) {
    const absl::StatusOr<v1::ListJobsResponse> listed = session->ListJobs();
    if (!listed.ok()) return listed.status();
    jobs.clear();
    for (const v1::JobSummary& job : listed->jobs()) jobs.emplace_back(job.tenant(), job.job());
  }
  Catalogue catalogue;
  for (const auto& [tenant, job] : jobs) {
    absl::StatusOr<v1::ListCheckpointsResponse> listed = session->ListCheckpoints(tenant, job);
    if (!listed.ok() && !source.job.empty()) return listed.status();
    if (!listed.ok()) {
      catalogue.problems.push_back(listed.status());
      continue;
    }
    for (v1::Checkpoint& checkpoint : *listed->mutable_checkpoints())
      catalogue.rows.push_back({job, std::move(checkpoint)});
  }
  return catalogue;
}

absl::StatusOr<Catalogue> ReadSource(const CatalogueSource& source) {
  if (!source.coordinator.empty()) {
    if (source.state_dir.empty()) return AskCoordinator(source);
    return absl::InvalidArgumentError("--state-dir and --coordinator exclude each other");
  }
  if (absl::Status status = CheckNamesCoordinator(CoordinatorOf(source)); !status.ok()) return status;
  if (!source.ca_file.empty()) return absl::InvalidArgumentError("--ca belongs to a --coordinator");
  if (source.state_dir.empty()) return ReadOwnDirectories(source);
  absl::StatusOr<std::vector<CatalogueRow>> rows = ReadStateDirectory(source.state_dir, source.job);
  if (!rows.ok()) return rows.status();
  return Catalogue{*std::move(rows), {}};
}

}  // namespace

absl::StatusOr<Catalogue> ReadCatalogue(const CatalogueSource& source) {
  absl::StatusOr<Catalogue> catalogue = ReadSource(source);
  if (!catalogue.ok()) return catalogue;
  const auto order = [](const CatalogueRow& row) {
    return std::make_tuple(row.job, row.checkpoint.committed_unix_ms(), row.checkpoint.token());
  };
  std::sort(catalogue->rows.begin(), catalogue->rows.end(),
            [&](const CatalogueRow& a, const CatalogueRow& b) { return order(a) < order(b); });
  return catalogue;
}

}  // namespace farandole
