#include "server/job/epoch_diagnosis.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/rank_text.h"
#include "server/diagnosis/diagnosis_report.h"
#include "server/job/rules/host_numbers.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A judgement of 10,240 ranks takes some milliseconds.
constexpr absl::Duration kBetweenJudgements = absl::Seconds(2);

std::string HostName(const v1::Member& member) {
  return Plain(member.hostname().empty() ? member.host_id() : member.hostname(), 64);
}

Measurements::GpuUse UseOf(const std::optional<v1::Gpu>& gpu) {
  Measurements::GpuUse use;
  if (!gpu.has_value()) return use;
  if (gpu->has_busy_percent()) use.busy = gpu->busy_percent() / 100.0;
  if (gpu->memory_total_bytes() > 0) {
    use.memory = static_cast<double>(gpu->memory_used_bytes()) / static_cast<double>(gpu->memory_total_bytes());
  }
  return use;
}

// By number. Containers, say, have names that tell nothing: then with the host's ranks.
std::vector<std::string> NameHosts(const Roster& roster, const std::vector<uint32_t>& hosts) {
  std::vector<std::vector<uint32_t>> ranks_of;
  std::map<std::string, int> count_of;
  for (uint32_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] >= ranks_of.size()) {
      ranks_of.resize(hosts[rank] + 1);
      ++count_of[HostName(roster.seat(rank).member)];
    }
    ranks_of[hosts[rank]].push_back(rank);
  }
  std::vector<std::string> names;
  for (const std::vector<uint32_t>& ranks : ranks_of) {
    const std::string name = HostName(roster.seat(ranks[0]).member);
    names.push_back(absl::StrCat("host ", name, count_of[name] > 1 ? absl::StrCat(" (", ShowRanks(ranks), ")") : ""));
  }
  return names;
}

}  // namespace

EpochDiagnosis::EpochDiagnosis(const Roster* roster, const Negotiation* negotiation,
                               std::shared_ptr<MemoryBudget> budget, MeasuredHistory* history)
    : roster_(roster), negotiation_(negotiation), budget_(std::move(budget)), history_(history) {
  around_.is_present = [roster](uint32_t rank) { return !roster->seat(rank).left; };
  around_.gpu_busy = [roster](uint32_t rank) -> std::optional<double> {
    const std::optional<v1::Gpu>& gpu = roster->seat(rank).gpu;
    if (!gpu.has_value() || !gpu->has_busy_percent()) return std::nullopt;
    return gpu->busy_percent() / 100.0;
  };
  around_.name_rank = [roster](uint32_t rank) {
    return absl::StrCat("rank ", rank, " (", HostName(roster->seat(rank).member), ")");
  };
  around_.name_host = [this](uint32_t host) { return host_names_[host]; };
  around_.name_slot = [negotiation](uint32_t slot) {
    const auto found = negotiation->slots().find(slot);
    if (found == negotiation->slots().end()) return absl::StrCat("slot ", slot);
    return absl::StrCat("'", Plain(found->second.name(), 100), "'");
  };
}

std::vector<std::string> EpochDiagnosis::Take(const v1::Heartbeat& heartbeat, absl::Time now) {
  if (!heartbeat.has_measures()) return {};
  if (measurements_ == nullptr) {
    HostNumbers numbers;
    std::vector<uint32_t> hosts;
    for (uint32_t rank = 0; rank < roster_->size(); ++rank)
      hosts.push_back(numbers.NumberOf(roster_->seat(rank).member.host_id()));
    host_names_ = NameHosts(*roster_, hosts);
    measurements_ = std::make_unique<Measurements>(std::move(hosts), budget_.get(), history_, now);
    judged_ = now;
  }
  for (const v1::Pulse& pulse : heartbeat.pulses())
    measurements_->SetGpu(pulse.rank(), UseOf(roster_->seat(pulse.rank()).gpu));
  measurements_->Take(heartbeat, now);
  std::vector<std::string> news;
  if (now < judged_ + kBetweenJudgements) return news;
  judged_ = now;
  const Diagnosis diagnosis = Judge(*measurements_, around_).Decide(now);
  latest_ = ReportDiagnosis(diagnosis, *measurements_, around_, now, absl::ZeroDuration());
  for (const Blocker& blocker : diagnosis.blockers) {
    if (told_.IsNews(blocker)) news.push_back(blocker.sentence);
  }
  return news;
}

v1::Diagnosis EpochDiagnosis::Report(absl::Duration wall_ahead) const {
  v1::Diagnosis report = latest_;
  if (measurements_ == nullptr) return report;
  ReportTotals(*measurements_, around_, wall_ahead, &report);
  const int64_t ahead_ms = absl::ToInt64Milliseconds(wall_ahead);
  for (v1::Blocker& blocker : *report.mutable_blockers()) blocker.set_since_unix_ms(blocker.since_unix_ms() + ahead_ms);
  report.set_at_unix_ms(absl::ToUnixMillis(judged_ + wall_ahead));
  return report;
}

void EpochDiagnosis::Close() {
  if (measurements_ == nullptr) return;
  measurements_->Close();
  history_->Hasten();
}

void EpochDiagnosis::AddSections(uint32_t rank, v1::RankHistory* shown) const {
  if (measurements_ != nullptr && rank < measurements_->size()) ReportSections(*measurements_, rank, shown);
}

void EpochDiagnosis::Describe(uint32_t rank, absl::Time now, v1::WorkerStatus* status) const {
  if (measurements_ == nullptr) return;
  v1::Measured measured = ReportRank(*measurements_, rank, now, latest_.least_own_seconds_a_step());
  if (measured.seconds() <= 0) return;
  *status->mutable_measured() = std::move(measured);
  const auto name_of = [this](uint32_t slot) {
    const auto found = negotiation_->slots().find(slot);
    return found == negotiation_->slots().end() ? "" : Plain(found->second.name(), 200);
  };
  const Measurements::Present& present = measurements_->present(rank);
  status->set_last_submitted(name_of(present.last_slot));
  status->set_waiting_ms(static_cast<uint64_t>(present.waiting * 1000));
  if (present.running <= 0) return;
  status->set_running(name_of(present.batch_slot));
  status->set_running_ms(static_cast<uint64_t>(present.running * 1000));
}

std::vector<v1::HostStatus> EpochDiagnosis::Hosts() const {
  if (measurements_ == nullptr) return {};
  std::vector<v1::HostStatus> hosts(host_names_.size());
  for (uint32_t rank = 0; rank < measurements_->size(); ++rank) {
    v1::HostStatus& host = hosts[measurements_->host(rank)];
    if (!host.host_id().empty()) continue;
    const v1::Member& member = roster_->seat(rank).member;
    const Measurements::Network& network = measurements_->network(measurements_->host(rank));
    host.set_host_id(member.host_id());
    host.set_hostname(member.hostname());
    host.set_received_bytes_per_second(network.received_bytes);
    host.set_sent_bytes_per_second(network.sent_bytes);
    host.set_retransmits_per_second(network.retransmits);
    host.set_retransmits(network.total_retransmits);
  }
  return hosts;
}

std::string EpochDiagnosis::Sentence() const {
  return latest_.blockers().empty() ? "" : latest_.blockers(0).sentence();
}

}  // namespace farandole
