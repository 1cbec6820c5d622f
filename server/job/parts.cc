#include "server/job/parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// A survivor that does not open its stream holds up the others; thousands at a time take seconds.
constexpr int kOpenSilences = 3;

}  // namespace

JobParts::JobParts(std::string tenant, std::string name, const JobOptions& job_options,
                   std::function<std::string(size_t)> random)
    : options(job_options),
      random_bytes(std::move(random)),
      ledger(std::move(tenant), std::move(name)),
      lobby(options.max_workers, options.open_limit, kOpenSilences * options.silence_limit),
      gate(ledger.tenant(), ledger.name()),
      logged(ledger.tenant(), ledger.name(), options.logged),
      measured(absl::StrCat("measured/", ledger.tenant(), "/", ledger.name(), "/"), options.roll_ups.get()) {
  if (options.traces_runs) ledger.TraceRuns(random_bytes);
}

RunningEpoch::StallLimits JobParts::StallLimits() const {
  const uint64_t limit_ms = ledger.record().elastic().stall_limit_ms();
  return {absl::Milliseconds(ledger.record().stall_warning_ms()),
          limit_ms == 0 ? absl::InfiniteDuration() : absl::Milliseconds(static_cast<int64_t>(limit_ms))};
}

bool JobParts::IsNobodyLeft() const {
  return survivors != nullptr && survivors->awaited() == 0 && survivors->back() == 0;
}

bool JobParts::IsFinishing() const {
  const Roster* const roster = PresentRoster();
  return IsElastic() && roster != nullptr && roster->IsFinishing();
}

v1::GetJobResponse JobParts::ReportMeasured() const {
  v1::GetJobResponse report;
  report.mutable_summary()->set_epoch(ledger.record().epoch().number());
  if (run != nullptr) *report.mutable_diagnosis() = run->diagnosis().Report(ledger.wall_ahead());
  // After a restart of the coordinator, until something is measured again.
  const bool is_last = report.diagnosis().at_unix_ms() == 0;
  if (is_last) *report.mutable_diagnosis() = last.diagnosis;
  for (const v1::HostStatus& host : is_last ? last.hosts : run->diagnosis().Hosts()) *report.add_hosts() = host;
  return report;
}

void JobParts::KeepLast() {
  run->diagnosis().Close();
  last.stall = run->last_stall();
  last.stalled_at = run->last_stall_at();
  last.negotiation_messages = run->negotiation_messages();
  v1::Diagnosis diagnosis = run->diagnosis().Report(ledger.wall_ahead());
  // Of an epoch that did not come back after a restart there is what was kept before.
  if (diagnosis.at_unix_ms() == 0) return;
  last.diagnosis = std::move(diagnosis);
  last.hosts = run->diagnosis().Hosts();
}

const Roster* JobParts::PresentRoster() const {
  if (run != nullptr) return &run->roster();
  return survivors == nullptr ? nullptr : &survivors->roster();
}

size_t JobParts::Joining() const {
  const size_t remaining = run->roster().remaining();
  return remaining >= MaxSize() ? 0 : std::min<size_t>(lobby.newcomers(), MaxSize() - remaining);
}

}  // namespace farandole
