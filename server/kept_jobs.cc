#include "server/kept_jobs.h"

#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/job/job.h"
#include "server/store/offline_reader.h"

namespace farandole {
namespace {

// By tenant and name.
using RowsOfJobs = std::map<std::pair<std::string, std::string>, std::vector<StoreRow>>;

bool IsOfJob(absl::string_view kind) {
  return kind == "job" || kind == "members" || kind == "checkpoint" || kind == "grant";
}

absl::StatusOr<RowsOfJobs> ReadRows(const std::string& state_dir) {
  const std::string store = absl::StrCat(state_dir, "/", kStoreFolder);
  // All at once: opening the store takes most of the time.
  absl::StatusOr<std::vector<StoreRow>> rows = ReadRowsOffline(store, "");
  if (!rows.ok()) return rows.status();
  RowsOfJobs jobs;
  for (StoreRow& row : *rows) {
    // KIND/TENANT/JOB, and in some /MORE.
    const std::vector<std::string> parts = absl::StrSplit(row.key, absl::MaxSplits('/', 3));
    if (!IsOfJob(parts[0])) continue;
    if (parts.size() < 3) return absl::DataLossError(absl::StrCat("store ", store, ": row ", row.key, " is of no job"));
    jobs[{parts[1], parts[2]}].push_back(std::move(row));
  }
  return jobs;
}

// The job's answer to `event`.
template <typename Response, typename Event>
Response Ask(Job* job, const Event& event, absl::Time now) {
  for (const Output& output : job->Step(event, now).outputs) {
    const Reply* reply = std::get_if<Reply>(&output);
    if (reply == nullptr) continue;
    if (const Response* response = std::get_if<Response>(&reply->message)) return *response;
  }
  return Response();
}

void EndWithCoordinator(v1::GetJobResponse* job) {
  v1::JobSummary* summary = job->mutable_summary();
  if (summary->state() != v1::JOB_STATE_FORMING && summary->state() != v1::JOB_STATE_RUNNING) return;
  summary->set_state(v1::JOB_STATE_FAILED);
  summary->set_reason(absl::StrCat("its coordinator ended before it did; before that: ", summary->reason()));
  for (v1::WorkerStatus& worker : *job->mutable_workers()) {
    if (worker.state() == "live") worker.set_state("unknown");
  }
}

}  // namespace

absl::StatusOr<std::vector<KeptJob>> ReadKeptJobs(const std::string& state_dir, absl::Time now) {
  const absl::StatusOr<RowsOfJobs> jobs = ReadRows(state_dir);
  if (!jobs.ok()) return jobs.status();
  std::vector<KeptJob> kept;
  for (const auto& [key, rows] : *jobs) {
    // No epoch is formed here, which would need a secret.
    const auto no_secret = [](size_t bytes) { return std::string(bytes, '\0'); };
    absl::StatusOr<std::unique_ptr<Job>> job = Job::Restore(key.first, key.second, JobOptions(), no_secret, rows, now);
    if (!job.ok()) return absl::Status(job.status().code(), absl::StrCat(state_dir, ": ", job.status().message()));
    KeptJob one;
    one.job = Ask<v1::GetJobResponse>(job->get(), JobInspected(), now);
    one.checkpoints = Ask<v1::ListCheckpointsResponse>(job->get(), CheckpointsListed(), now);
    EndWithCoordinator(&one.job);
    kept.push_back(std::move(one));
  }
  return kept;
}

}  // namespace farandole
