#include "server/edge/view_json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "web/form_text.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;
using Worth = std::function<double(const v1::WorkerStatus&)>;

constexpr size_t kMostCollectives = 64;
// Without a limit.
constexpr size_t kMostListed = 100;
constexpr uint8_t kThirtieths = 30;
constexpr uint8_t kNotMeasured = 31;

size_t NumberIn(absl::string_view query, absl::string_view name, size_t otherwise) {
  size_t number = 0;
  return absl::SimpleAtoi(QueryValue(query, name), &number) ? number : otherwise;
}

// "live", "draining", "left", "lost", and others as they are.
std::string StateOf(const v1::WorkerStatus& worker) {
  return absl::StartsWith(worker.state(), "lost:") ? "lost" : worker.state();
}

double Rounded(double value) { return std::round(value * 10) / 10; }

Json PageJson(const v1::GetJobResponse& job) {
  Json json = SummaryJson(job.summary());
  json["negotiation_messages"] = job.negotiation_messages();
  json["diagnosis"] = DiagnosisJson(job.diagnosis());
  std::map<std::string, size_t> states;
  std::map<std::string, size_t> hosts;
  json["lost"] = Json::array();
  for (const v1::WorkerStatus& worker : job.workers()) {
    ++states[StateOf(worker)];
    ++hosts[worker.member().host_id()];
    if (StateOf(worker) == "lost" && json["lost"].size() < 8) json["lost"].push_back(WorkerJson(worker));
  }
  json["states"] = states;
  json["workers"] = job.workers_size();
  json["hosts"] = hosts.size();
  json["barred_hosts"] = Json::array();
  for (const v1::BarredHost& host : job.barred_hosts()) {
    json["barred_hosts"].push_back(
        {{"hostname", host.hostname()}, {"failures", host.failures()}, {"barred_ms", host.barred_ms()}});
  }
  if (job.has_wanted_checkpoint()) json["wanted_checkpoint"] = WantedCheckpointJson(job.wanted_checkpoint());
  json["history"] = DecisionsJson(job);
  return json;
}

// By what workers are ordered; null: by rank, or no such order.
Worth WorthOf(absl::string_view order) {
  if (order == "own") return [](const v1::WorkerStatus& one) { return one.measured().own_percent(); };
  if (order == "waited") return [](const v1::WorkerStatus& one) { return one.measured().waited_percent(); };
  if (order == "transfer") return [](const v1::WorkerStatus& one) { return one.measured().transfer_percent(); };
  if (order == "cpu") return [](const v1::WorkerStatus& one) { return one.measured().cpu_percent(); };
  if (order == "alone") return [](const v1::WorkerStatus& one) { return one.measured().alone_seconds(); };
  if (order == "silence") return [](const v1::WorkerStatus& one) { return static_cast<double>(one.silence_ms()); };
  return nullptr;
}

absl::StatusOr<Json> WorkersJson(absl::string_view query, const v1::GetJobResponse& job) {
  const std::string order = QueryValue(query, "order");
  const Worth worth = WorthOf(order);
  if (worth == nullptr && !order.empty() && order != "rank") {
    return absl::InvalidArgumentError(
        absl::StrCat("order=", order, " is not rank, own, waited, transfer, cpu, alone or silence"));
  }
  const std::string host = QueryValue(query, "host");
  std::vector<const v1::WorkerStatus*> found;
  for (const v1::WorkerStatus& worker : job.workers()) {
    if (host.empty() || worker.member().host_id() == host) found.push_back(&worker);
  }
  if (worth != nullptr) {
    std::stable_sort(found.begin(), found.end(),
                     [&worth](const v1::WorkerStatus* a, const v1::WorkerStatus* b) { return worth(*a) > worth(*b); });
  }
  Json json;
  json["found"] = found.size();
  json["workers"] = Json::array();
  const RowRange rows = RowsOf(query, found.size(), kMostListed, kMostRows);
  for (size_t i = rows.first; i < rows.end; ++i) json["workers"].push_back(WorkerJson(*found[i]));
  return json;
}

absl::StatusOr<Json> RankJson(absl::string_view query, const v1::GetJobResponse& job) {
  const std::string rank = QueryValue(query, "rank");
  for (const v1::WorkerStatus& worker : job.workers()) {
    if (absl::StrCat(worker.rank()) != rank || worker.state() == "waiting") continue;
    Json json;
    json["worker"] = WorkerJson(worker);
    return json;
  }
  return absl::NotFoundError(absl::StrCat("job ", job.summary().job(), " has no worker of rank ", rank));
}

absl::StatusOr<Json> ChartsJson(absl::string_view query, const v1::GetJobResponse& job) {
  const std::string host = QueryValue(query, "host");
  if (!host.empty() && !job.has_rank_history())
    return absl::NotFoundError(absl::StrCat("job ", job.summary().job(), " has no rank on host ", host));
  uint32_t rank = 0;
  const bool is_one = absl::SimpleAtoi(QueryValue(query, "rank"), &rank);
  if (is_one && job.summary().state() != v1::JOB_STATE_FORMING && rank >= job.summary().size())
    return absl::NotFoundError(absl::StrCat("job ", job.summary().job(), " has no worker of rank ", rank));
  Json json;
  json["rank_history"] = HistoryJson(job.rank_history());
  if (job.has_network_history()) json["network_history"] = NetworkJson(job.network_history());
  return json;
}

// Sums over the ranks of a host.
struct HostSums {
  std::string hostname;
  size_t ranks = 0;
  uint32_t first = UINT32_MAX;
  uint32_t last = 0;
  size_t live = 0;
  size_t lost = 0;
  size_t measured = 0;
  double own = 0;
  double waited = 0;
  double transfer = 0;
  double cpu = 0;

  void Add(const v1::WorkerStatus& worker) {
    hostname = worker.member().hostname();
    ++ranks;
    first = std::min(first, worker.rank());
    last = std::max(last, worker.rank());
    live += worker.state() == "live" || worker.state() == "draining" ? 1 : 0;
    lost += StateOf(worker) == "lost" ? 1 : 0;
    if (!worker.has_measured()) return;
    ++measured;
    own += worker.measured().own_percent();
    waited += worker.measured().waited_percent();
    transfer += worker.measured().transfer_percent();
    cpu += worker.measured().cpu_percent();
  }
  Json Show(const std::string& id) const {
    Json json{{"host_id", id},     {"hostname", hostname}, {"ranks", ranks}, {"first_rank", first},
              {"last_rank", last}, {"live", live},         {"lost", lost}};
    if (measured == 0) return json;
    const auto count = static_cast<double>(measured);
    json["own_percent"] = Rounded(own / count);
    json["waited_percent"] = Rounded(waited / count);
    json["transfer_percent"] = Rounded(transfer / count);
    json["cpu_percent"] = Rounded(cpu / count);
    return json;
  }
};

Json HostsJson(absl::string_view query, const v1::GetJobResponse& job) {
  const std::string only = QueryValue(query, "host");
  std::map<std::string, HostSums> sums;
  std::vector<std::string> order;
  for (const v1::WorkerStatus& worker : job.workers()) {
    const std::string& id = worker.member().host_id();
    if (worker.state() == "waiting" || (!only.empty() && id != only)) continue;
    if (sums.find(id) == sums.end()) order.push_back(id);
    sums[id].Add(worker);
  }
  std::map<std::string, const v1::HostStatus*> networks;
  for (const v1::HostStatus& host : job.hosts()) networks[host.host_id()] = &host;
  Json json;
  json["found"] = order.size();
  json["hosts"] = Json::array();
  const RowRange rows = RowsOf(query, order.size(), kMostListed, kMostRows);
  for (size_t i = rows.first; i < rows.end; ++i) {
    Json host = sums[order[i]].Show(order[i]);
    if (const auto network = networks.find(order[i]); network != networks.end()) {
      host["received_bytes_per_second"] = std::round(network->second->received_bytes_per_second());
      host["sent_bytes_per_second"] = std::round(network->second->sent_bytes_per_second());
      host["retransmits_per_second"] = Rounded(network->second->retransmits_per_second());
      host["retransmits"] = network->second->retransmits();
    }
    json["hosts"].push_back(std::move(host));
  }
  return json;
}

Json CollectivesJson(const v1::GetJobResponse& job) {
  struct Use {
    size_t submitted = 0;
    size_t waiting = 0;
    size_t running = 0;
    uint64_t longest_ms = 0;
    uint32_t example = 0;
  };
  std::map<std::string, Use> uses;
  size_t measured = 0;
  for (const v1::WorkerStatus& worker : job.workers()) {
    if (!worker.has_measured()) continue;
    ++measured;
    if (!worker.running().empty()) ++uses[worker.running()].running;
    if (worker.last_submitted().empty()) continue;
    Use& use = uses[worker.last_submitted()];
    if (++use.submitted == 1) use.example = worker.rank();
    use.waiting += worker.waiting_ms() > 0 ? 1 : 0;
    use.longest_ms = std::max(use.longest_ms, worker.waiting_ms());
  }
  std::vector<std::pair<std::string, Use>> most(uses.begin(), uses.end());
  std::stable_sort(most.begin(), most.end(),
                   [](const auto& a, const auto& b) { return a.second.submitted > b.second.submitted; });
  Json json;
  json["found"] = most.size();
  json["measured"] = measured;
  json["collectives"] = Json::array();
  for (size_t i = 0; i < std::min(most.size(), kMostCollectives); ++i) {
    const auto& [name, use] = most[i];
    json["collectives"].push_back({{"name", name},
                                   {"submitted", use.submitted},
                                   {"waiting", use.waiting},
                                   {"running", use.running},
                                   {"longest_wait_ms", use.longest_ms},
                                   {"first_rank", use.example}});
  }
  return json;
}

}  // namespace

RowRange RowsOf(absl::string_view query, size_t found, size_t otherwise, size_t most) {
  const size_t first = std::min(NumberIn(query, "offset", 0), found);
  return {first, first + std::min({NumberIn(query, "limit", otherwise), most, found - first})};
}

absl::StatusOr<std::string> ViewJson(absl::string_view view, absl::string_view query, const v1::GetJobResponse& job,
                                     int64_t at_unix_ms) {
  absl::StatusOr<Json> json = absl::InvalidArgumentError(
      absl::StrCat("view=", view, " is not page, workers, ranks, rank, charts, hosts, collectives or checkpoints"));
  if (view == "page") json = PageJson(job);
  if (view == "workers") json = WorkersJson(query, job);
  if (view == "rank") json = RankJson(query, job);
  if (view == "charts") json = ChartsJson(query, job);
  if (view == "hosts") json = HostsJson(query, job);
  if (view == "collectives") json = CollectivesJson(job);
  if (!json.ok()) return json.status();
  (*json)["at_unix_ms"] = at_unix_ms;
  return ShowJson(*json, -1) + "\n";
}

std::string RankBytes(const v1::GetJobResponse& job) {
  const auto code_of = [](const std::string& state) {
    const char* const names[] = {"live", "draining", "left", "lost"};
    return static_cast<uint8_t>(std::find(std::begin(names), std::end(names), state) - std::begin(names));
  };
  std::string bytes;
  for (const v1::WorkerStatus& worker : job.workers()) {
    if (worker.state() == "waiting") continue;
    const double own = std::clamp(worker.measured().own_percent(), 0.0, 100.0);
    const auto share =
        worker.has_measured() ? static_cast<uint8_t>(std::lround(own / 100 * kThirtieths)) : kNotMeasured;
    bytes += static_cast<char>(static_cast<uint8_t>(code_of(StateOf(worker)) << 5) | share);
  }
  return bytes;
}

}  // namespace farandole
