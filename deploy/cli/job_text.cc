#include "deploy/cli/job_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/job_state.h"
#include "deploy/cli/text/diagnosis_text.h"
#include "deploy/cli/text/text_table.h"

namespace farandole {
namespace {

// A screen of them; --json has all.
constexpr int kMostDecisions = 20;

std::string Rate(double per_second) { return absl::StrFormat("%.1f/s", per_second); }

std::string WorkerCount(const v1::JobSummary& job) {
  return job.size() == job.wanted_size() ? absl::StrCat(job.size()) : absl::StrCat(job.size(), "/", job.wanted_size());
}

// The part that only elastic jobs have: ", 2 to 8 possible, 1 waiting; 3 epochs lost"; "" for others.
std::string Elasticity(const v1::JobSummary& job) {
  if (!job.has_elastic()) return "";
  return absl::StrCat(", ", job.elastic().min_size(), " to ", job.elastic().max_size(), " possible, ", job.waiting(),
                      " waiting; ", job.resets(), job.resets() == 1 ? " epoch" : " epochs", " lost");
}

std::string Since(int64_t unix_ms, absl::Time now) {
  return absl::StrCat(ShowAge(now - absl::FromUnixMillis(unix_ms)), " ago");
}

std::string LastStall(const v1::JobSummary& job, absl::Time now) {
  return absl::StrCat(Since(job.last_stall_unix_ms(), now), ": ", WithoutControls(job.last_stall()));
}

// "73 % busy, 41 of 80 GiB": the known part of it.
std::string LoadText(std::optional<double> busy_percent, uint64_t memory_used, uint64_t memory_total) {
  std::vector<std::string> parts;
  if (busy_percent.has_value()) parts.push_back(absl::StrFormat("%.0f %% busy", *busy_percent));
  if (memory_total > 0) parts.push_back(absl::StrCat(ShowSize(memory_used), " of ", ShowSize(memory_total)));
  return parts.empty() ? "-" : absl::StrJoin(parts, ", ");
}

std::string GpuText(const v1::Gpu& gpu) {
  return LoadText(gpu.has_busy_percent() ? std::optional<double>(gpu.busy_percent()) : std::nullopt,
                  gpu.memory_used_bytes(), gpu.memory_total_bytes());
}

// The line about all GPUs of a job; "" where nothing is known of any.
std::string GpusLine(const v1::JobSummary& job) {
  if (!job.has_gpus()) return "";
  const v1::GpuUsage& gpus = job.gpus();
  return absl::StrCat("\ngpus         ", gpus.gpus(), ", ",
                      LoadText(gpus.telling_gpus() > 0 ? std::optional<double>(gpus.busy_percent()) : std::nullopt,
                               gpus.memory_used_bytes(), gpus.memory_total_bytes()),
                      " in use");
}

// The line about the last request for a checkpoint; "" where nobody has asked.
std::string WantedLine(const v1::GetJobResponse& job, absl::Time now) {
  if (!job.has_wanted_checkpoint()) return "";
  const v1::WantedCheckpoint& wanted = job.wanted_checkpoint();
  std::string state = "; not told yet: its ranks have not all called checkpoint_requested() since";
  if (wanted.has_checkpoint()) {
    state = absl::StrCat(": written at step ", wanted.checkpoint().step());
  } else if (wanted.over_unix_ms() != 0) {
    state = absl::StrCat(": ", WithoutControls(wanted.failure()));
  } else if (wanted.told_unix_ms() != 0) {
    state = absl::StrCat("; its program was told ", Since(wanted.told_unix_ms(), now));
  }
  return absl::StrCat("checkpoint   asked for ", Since(wanted.since_unix_ms(), now), " by ",
                      WithoutControls(wanted.asker()), state, "\n");
}

// A rank's own time, its waits for ranks, and for collectives, and its scores; "-" where it was not measured.
void AddShares(const v1::Measured& measured, std::vector<std::string>* row) {
  for (const double percent : {measured.own_percent(), measured.waited_percent(), measured.transfer_percent()})
    row->push_back(measured.seconds() > 0 ? absl::StrFormat("%.0f %%", percent) : "-");
  for (const double score : {measured.score(), measured.own_score()})
    row->push_back(score > 0 ? absl::StrFormat("%.2f", score) : "-");
}

void PrintWorkers(const v1::GetJobResponse& job, std::ostream& out) {
  std::vector<std::vector<std::string>> rows;
  const bool has_ranks = job.summary().state() != v1::JOB_STATE_FORMING;
  const bool has_gpus = std::any_of(job.workers().begin(), job.workers().end(),
                                    [](const v1::WorkerStatus& worker) { return worker.has_gpu(); });
  const bool is_measured = std::any_of(job.workers().begin(), job.workers().end(),
                                       [](const v1::WorkerStatus& worker) { return worker.has_measured(); });
  for (const v1::WorkerStatus& worker : job.workers()) {
    const bool is_live = worker.state() == "live" || worker.state() == "draining";
    rows.push_back({has_ranks && worker.state() != "waiting" ? absl::StrCat(worker.rank()) : "-",
                    worker.member().hostname(), absl::StrCat(worker.member().pid()), absl::StrCat(worker.batches()),
                    is_live ? absl::StrFormat("%.1f s ago", static_cast<double>(worker.silence_ms()) / 1000) : "-",
                    worker.state()});
    if (has_gpus) rows.back().push_back(worker.has_gpu() ? GpuText(worker.gpu()) : "-");
    if (is_measured) AddShares(worker.measured(), &rows.back());
  }
  std::vector<TextColumn> columns = {{"RANK", true},        {"HOST"},           {"PID", true},
                                     {"COLLECTIVES", true}, {"HEARD OF", true}, {"STATE"}};
  if (has_gpus) columns.push_back({"GPU"});
  if (is_measured)
    columns.insert(columns.end(),
                   {{"OWN", true}, {"WAITS", true}, {"IN COLLECTIVES", true}, {"SCORE", true}, {"OF ITS BEST", true}});
  PrintTable(columns, rows, out);
}

void PrintCheckpoints(const v1::ListCheckpointsResponse& checkpoints, absl::Time now, std::ostream& out) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    rows.push_back({checkpoint.name(), absl::StrCat(checkpoint.step()), ShowSize(checkpoint.size_bytes()),
                    ShowAge(now - absl::FromUnixMillis(checkpoint.committed_unix_ms())), checkpoint.path()});
  }
  PrintTable({{"CHECKPOINT"}, {"STEP", true}, {"SIZE", true}, {"AGE", true}, {"PATH"}}, rows, out);
}

void PrintHistory(const v1::GetJobResponse& job, std::ostream& out) {
  const int first = std::max(0, job.history_size() - kMostDecisions);
  out << "history" << (first == 0 ? "" : absl::StrCat(" (the ", first, " decisions before are in --json)")) << "\n";
  for (int i = first; i < job.history_size(); ++i) {
    out << "  " << ShowTime(absl::FromUnixMillis(job.history(i).at_unix_ms())) << "  "
        << WithoutControls(job.history(i).sentence()) << "\n";
  }
}

}  // namespace

void PrintJobs(const std::vector<v1::JobSummary>& jobs, absl::Time now, std::ostream& out) {
  const bool has_tenants = std::any_of(jobs.begin(), jobs.end(),
                                       [&](const v1::JobSummary& job) { return job.tenant() != jobs[0].tenant(); });
  std::vector<TextColumn> columns = {{"JOB"},        {"STATE"},     {"WORKERS", true}, {"STEPS", true},
                                     {"RATE", true}, {"AGE", true}, {"REASON"}};
  if (has_tenants) columns.insert(columns.begin(), {"TENANT"});
  std::vector<std::vector<std::string>> rows;
  for (const v1::JobSummary& job : jobs) {
    const bool runs = job.state() == v1::JOB_STATE_RUNNING;
    rows.push_back({job.job(), StateName(job.state()), WorkerCount(job),
                    runs && job.has_steps_per_second() ? Rate(job.steps_per_second()) : "-",
                    runs ? Rate(job.batches_per_second()) : "-",
                    ShowAge(now - absl::FromUnixMillis(job.created_unix_ms())), job.reason()});
    if (has_tenants) rows.back().insert(rows.back().begin(), job.tenant());
  }
  PrintTable(columns, rows, out);
  for (const v1::JobSummary& job : jobs) {
    if (job.state() != v1::JOB_STATE_RUNNING || job.last_stall().empty()) continue;
    out << job.job() << " stalled " << LastStall(job, now) << "\n";
  }
}

void PrintJob(const v1::GetJobResponse& job, const v1::ListCheckpointsResponse& checkpoints, const std::string& place,
              absl::Time now, std::ostream& out) {
  const v1::JobSummary& summary = job.summary();
  out << "job          " << summary.job() << " of tenant " << summary.tenant() << ", " << place << "\nstate        "
      << StateName(summary.state()) << ": " << WithoutControls(summary.reason()) << "\nworkers      " << summary.size()
      << " of " << summary.wanted_size() << " wanted, epoch " << summary.epoch() << Elasticity(summary)
      << "\nrate         " << Rate(summary.batches_per_second()) << " (collectives)" << GpusLine(summary)
      << "\ncreated      " << ShowTime(absl::FromUnixMillis(summary.created_unix_ms())) << ", "
      << Since(summary.created_unix_ms(), now) << "\nnegotiation  " << job.negotiation_messages()
      << " messages in this epoch"
      << "\nlast stall   " << (summary.last_stall().empty() ? "none in this epoch" : LastStall(summary, now)) << "\n"
      << ShowDiagnosis(job.diagnosis()) << WantedLine(job, now)
      << (job.flight().empty() ? "" : absl::StrCat("collectives  ", WithoutControls(job.flight()), "\n")) << "\n";
  PrintWorkers(job, out);
  for (const v1::BarredHost& host : job.barred_hosts()) {
    out << "host " << WithoutControls(host.hostname()) << " is barred for "
        << absl::StrFormat("%.1f s", static_cast<double>(host.barred_ms()) / 1000) << " after " << host.failures()
        << (host.failures() == 1 ? " failure\n" : " failures\n");
  }
  out << "\n";
  if (checkpoints.checkpoints_size() > 0) {
    PrintCheckpoints(checkpoints, now, out);
    out << "\n";
  }
  PrintHistory(job, out);
}

}  // namespace farandole
