#include "server/job/job_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/diagnosis/diagnosis_report.h"
#include "server/job/rules/host_numbers.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// Of an incarnation, for people: they tell workers apart, and are of no use for anything else.
constexpr size_t kShownDigits = 8;

}  // namespace

v1::JobSummary JobReport::Summary() const {
  v1::JobSummary summary;
  const bool is_forming = ledger_.record().state() == v1::JOB_STATE_FORMING;
  summary.set_tenant(ledger_.tenant());
  summary.set_job(ledger_.name());
  summary.set_state(ledger_.record().state());
  summary.set_reason(is_forming ? WaitingSentence() : ledger_.record().reason());
  summary.set_epoch(ledger_.record().epoch().number());
  summary.set_size(is_forming ? job_.lobby.size() : ledger_.record().epoch().members_size());
  summary.set_wanted_size(ledger_.record().wanted_size());
  summary.set_created_unix_ms(ledger_.record().created_unix_ms());
  summary.set_ended_unix_ms(ledger_.record().ended_unix_ms());
  summary.set_launched_unix_ms(ledger_.record().launch().since_unix_ms());
  summary.set_part_of(ledger_.record().launch().part_of());
  if (job_.IsElastic()) *summary.mutable_elastic() = ledger_.record().elastic();
  if (job_.run != nullptr) summary.set_waiting(job_.lobby.size());
  summary.set_resets(ledger_.record().resets());
  if (job_.run != nullptr) {
    summary.set_batches_per_second(job_.run->roster().BatchesPerSecond());
    if (const std::optional<double> steps = job_.run->diagnosis().StepsPerSecond())
      summary.set_steps_per_second(*steps);
    const v1::GpuUsage gpus = job_.run->roster().GpuUsage();
    if (gpus.gpus() > 0) *summary.mutable_gpus() = gpus;
    summary.set_blocker(job_.run->diagnosis().Sentence());
  }
  summary.set_last_stall(job_.run == nullptr ? job_.last.stall : job_.run->last_stall());
  const absl::Time stalled_at = job_.run == nullptr ? job_.last.stalled_at : job_.run->last_stall_at();
  if (!summary.last_stall().empty())
    summary.set_last_stall_unix_ms(absl::ToUnixMillis(stalled_at + ledger_.wall_ahead()));
  return summary;
}

v1::GetJobResponse JobReport::Inspect(const std::optional<HistoryAsked>& history) const {
  if (history.has_value() && history->is_alone) {
    v1::GetJobResponse response;
    *response.mutable_summary() = Summary();
    AddHistory(*history, &response);
    return response;
  }
  v1::GetJobResponse response = job_.ReportMeasured();
  *response.mutable_summary() = Summary();
  *response.mutable_history() = ledger_.history().entries();
  response.set_negotiation_messages(job_.run == nullptr ? job_.last.negotiation_messages
                                                        : job_.run->negotiation_messages());
  response.set_flight(job_.last.flight);
  if (job_.wanted.state().serial() != 0) *response.mutable_wanted_checkpoint() = job_.wanted.state();
  if (history.has_value()) AddHistory(*history, &response);
  for (const v1::WorkerStatus& worker : job_.run == nullptr ? job_.last.workers : job_.run->Workers(ledger_.now()))
    *response.add_workers() = worker;
  for (v1::WorkerStatus& worker : *response.mutable_workers()) {
    std::string* incarnation = worker.mutable_member()->mutable_incarnation();
    if (incarnation->size() > kShownDigits) incarnation->resize(kShownDigits);
  }
  if (ledger_.record().state() == v1::JOB_STATE_FORMING) response.clear_workers();
  if (job_.survivors != nullptr) {
    for (v1::WorkerStatus& worker : job_.survivors->Workers(ledger_.now())) *response.add_workers() = std::move(worker);
  }
  *response.mutable_barred_hosts() = job_.failures.hosts().List(ledger_.now());
  if (ledger_.record().state() == v1::JOB_STATE_FORMING || job_.IsElastic()) {
    for (const auto& [order, waiting] : job_.lobby.workers()) {
      v1::WorkerStatus* worker = response.add_workers();
      *worker->mutable_member() = waiting.member;
      worker->set_state("waiting");
    }
  }
  return response;
}

void JobReport::AddHistory(const HistoryAsked& asked, v1::GetJobResponse* response) const {
  const RollUpHistory& history = job_.measured.history().ranks;
  const NetworkHistory& hosts = job_.measured.history().hosts;
  const v1::Epoch& last = ledger_.record().epoch();
  if (asked.host_id.empty()) {
    const uint64_t epoch = asked.epoch == 0 ? last.number() : asked.epoch;
    *response->mutable_rank_history() = ReportHistory(history.Read(epoch, asked.rank, asked.latest));
    if (asked.rank == RollUpHistory::kWholeJob)
      *response->mutable_network_history() = ReportNetwork(hosts.Read(epoch, asked.rank, asked.latest));
    if (job_.run != nullptr && job_.run->epoch().number() == epoch)
      job_.run->diagnosis().AddSections(asked.rank, response->mutable_rank_history());
    return;
  }
  std::vector<uint32_t> ranks;
  for (int rank = 0; rank < last.members_size(); ++rank) {
    if (last.members(rank).host_id() == asked.host_id) ranks.push_back(static_cast<uint32_t>(rank));
  }
  if (ranks.empty()) return;
  // The mean of all ranks is there already, and has those that were lost.
  const bool has_all = ranks.size() == static_cast<size_t>(last.members_size());
  *response->mutable_rank_history() =
      ReportHistory(has_all ? history.Read(last.number(), RollUpHistory::kWholeJob, asked.latest)
                            : history.ReadMean(last.number(), ranks, asked.latest));
  if (const std::optional<uint32_t> host = HostNumbers(last).Find(asked.host_id))
    *response->mutable_network_history() = ReportNetwork(hosts.Read(last.number(), *host, asked.latest));
}

std::string JobReport::WaitingSentence() const {
  if (!job_.IsElastic() && job_.run == nullptr) return job_.lobby.WaitingSentence();
  if (!job_.IsElastic()) {
    return absl::StrCat(job_.lobby.WaitingSentence(), "; epoch ", job_.run->epoch().number(), " still runs on ",
                        ShowRanks(job_.run->roster().Staying()));
  }
  const std::string waiting = absl::StrCat(Count(job_.lobby.size(), "worker"),
                                           job_.lobby.size() == 1 ? " waits: " : " wait: ", job_.lobby.NameWorkers());
  if (job_.run != nullptr) {
    const std::string size = Count(job_.run->roster().remaining(), "worker");
    const std::string epoch = absl::StrCat("epoch ", job_.run->epoch().number());
    if (job_.Joining() == 0 && job_.lobby.newcomers() > 0)
      return absl::StrCat(epoch, " has ", size, ", and ", job_.MaxSize(), " is the most; as spares ", waiting);
    return absl::StrCat(epoch, " runs with ", size, " until its program lets others join; ", waiting);
  }
  if (job_.survivors == nullptr) return job_.lobby.WaitingSentence();
  const std::string others = job_.lobby.IsEmpty() ? "" : absl::StrCat("; ", waiting);
  if (job_.survivors->awaited() > 0) {
    return absl::StrCat("waits for ", job_.survivors->NameAwaited(), " of epoch ", job_.survivors->epoch().number(),
                        " to join again", others);
  }
  if (job_.lobby.size() < job_.MinSize()) {
    return absl::StrCat("waits for ", job_.MinSize() - job_.lobby.size(), " more of at least ",
                        Count(job_.MinSize(), "worker"), others);
  }
  return job_.IsNobodyLeft() ? job_.lobby.WaitingSentence() : absl::StrCat("waits for streams to open", others);
}

}  // namespace farandole
