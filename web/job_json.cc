#include "web/job_json.h"

#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/job_state.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

// Of one GPU, or of all of a job.
template <typename Gpus>
void AddLoad(const Gpus& gpus, bool tells, Json* json) {
  (*json)["memory_used_bytes"] = gpus.memory_used_bytes();
  (*json)["memory_total_bytes"] = gpus.memory_total_bytes();
  if (tells) (*json)["busy_percent"] = gpus.busy_percent();
}

Json MeasuredJson(const v1::Measured& measured, bool is_one_rank) {
  Json json;
  json["seconds"] = measured.seconds();
  json["steps"] = measured.steps();
  json["own_percent"] = measured.own_percent();
  json["waited_percent"] = measured.waited_percent();
  json["transfer_percent"] = measured.transfer_percent();
  if (!is_one_rank) {
    json["slowdown"] = measured.slowdown();
    return json;
  }
  json["cpu_percent"] = measured.cpu_percent();
  json["last_steps"] = measured.last_steps();
  json["alone_seconds"] = measured.alone_seconds();
  json["score"] = measured.score();
  json["own_score"] = measured.own_score();
  return json;
}

Json BlockerJson(const v1::Blocker& blocker) {
  Json json;
  json["cause"] = blocker.cause();
  if (blocker.has_rank()) json["rank"] = blocker.rank();
  if (!blocker.host().empty()) json["host"] = blocker.host();
  json["lost_seconds_a_minute"] = blocker.lost_seconds_a_minute();
  json["percent"] = blocker.percent();
  json["own_ratio"] = blocker.own_ratio();
  json["last_steps"] = blocker.last_steps();
  json["steps"] = blocker.steps();
  json["since_unix_ms"] = blocker.since_unix_ms();
  json["sentence"] = blocker.sentence();
  if (!blocker.section().empty()) json["section"] = blocker.section();
  return json;
}

}  // namespace

Json DiagnosisJson(const v1::Diagnosis& diagnosis) {
  Json json;
  json["at_unix_ms"] = diagnosis.at_unix_ms();
  json["now"] = MeasuredJson(diagnosis.now(), false);
  json["blockers"] = Json::array();
  for (const v1::Blocker& blocker : diagnosis.blockers()) json["blockers"].push_back(BlockerJson(blocker));
  json["total"] = MeasuredJson(diagnosis.total(), false);
  if (diagnosis.has_worst()) json["worst"] = BlockerJson(diagnosis.worst());
  return json;
}

namespace {

template <typename Column>
Json Numbers(const Column& column) {
  return std::vector<int64_t>(column.begin(), column.end());
}

}  // namespace

Json HistoryJson(const v1::RankHistory& history) {
  Json json;
  json["at_unix_ms"] = Numbers(history.at_unix_ms());
  json["waited"] = Numbers(history.waited());
  json["most_waited"] = Numbers(history.most_waited());
  json["transfer"] = Numbers(history.transfer());
  json["most_transfer"] = Numbers(history.most_transfer());
  json["cpu"] = Numbers(history.cpu());
  json["steps"] = Numbers(history.steps());
  if (history.gpu_size() > 0) {
    json["gpu"] = Numbers(history.gpu());
    json["gpu_memory"] = Numbers(history.gpu_memory());
  }
  json["sections"] = Json::array();
  for (const v1::SectionTime& one : history.sections()) {
    json["sections"].push_back({{"name", one.name()},
                                {"seconds_a_step", one.seconds_a_step()},
                                {"median_seconds_a_step", one.median_seconds_a_step()}});
  }
  return json;
}

Json NetworkJson(const v1::NetworkHistory& history) {
  Json json;
  json["at_unix_ms"] = Numbers(history.at_unix_ms());
  json["received_bytes"] = Numbers(history.received_bytes());
  json["sent_bytes"] = Numbers(history.sent_bytes());
  json["retransmits"] = Numbers(history.retransmits());
  return json;
}

Json WorkerJson(const v1::WorkerStatus& worker) {
  Json json;
  json["rank"] = worker.rank();
  json["hostname"] = worker.member().hostname();
  json["host_id"] = worker.member().host_id();
  json["pid"] = worker.member().pid();
  json["incarnation"] = worker.member().incarnation();
  json["state"] = worker.state();
  json["silence_ms"] = worker.silence_ms();
  json["batches"] = worker.batches();
  if (worker.has_measured()) {
    json["measured"] = MeasuredJson(worker.measured(), true);
    json["last_submitted"] = worker.last_submitted();
    json["waiting_ms"] = worker.waiting_ms();
    json["running"] = worker.running();
    json["running_ms"] = worker.running_ms();
  }
  if (!worker.has_gpu()) return json;
  json["gpu"]["name"] = worker.gpu().name();
  AddLoad(worker.gpu(), worker.gpu().has_busy_percent(), &json["gpu"]);
  return json;
}

Json DecisionsJson(const v1::GetJobResponse& job) {
  Json json = Json::array();
  for (const v1::HistoryEntry& entry : job.history())
    json.push_back({{"at_unix_ms", entry.at_unix_ms()}, {"sentence", entry.sentence()}});
  return json;
}

Json StepRateJson(const v1::JobSummary& summary) {
  return summary.has_steps_per_second() ? Json(summary.steps_per_second()) : Json();
}

Json SummaryJson(const v1::JobSummary& summary) {
  Json json;
  json["tenant"] = summary.tenant();
  json["job"] = summary.job();
  json["state"] = StateName(summary.state());
  json["reason"] = summary.reason();
  json["epoch"] = summary.epoch();
  json["size"] = summary.size();
  json["wanted_size"] = summary.wanted_size();
  json["created_unix_ms"] = summary.created_unix_ms();
  json["batches_per_second"] = summary.batches_per_second();
  json["steps_per_second"] = StepRateJson(summary);
  json["last_stall"] = summary.last_stall();
  json["last_stall_unix_ms"] = summary.last_stall_unix_ms();
  json["blocker"] = summary.blocker();
  if (summary.has_queue()) {
    json["queue"]["position"] = summary.queue().position();
    json["queue"]["length"] = summary.queue().length();
    json["queue"]["reason"] = summary.queue().reason();
  }
  if (summary.has_gpus()) {
    json["gpus"]["gpus"] = summary.gpus().gpus();
    AddLoad(summary.gpus(), summary.gpus().telling_gpus() > 0, &json["gpus"]);
  }
  if (!summary.has_elastic()) return json;
  json["min_size"] = summary.elastic().min_size();
  json["max_size"] = summary.elastic().max_size();
  json["waiting"] = summary.waiting();
  json["resets"] = summary.resets();
  return json;
}

Json JobJson(const v1::GetJobResponse& job) {
  Json json = SummaryJson(job.summary());
  json["negotiation_messages"] = job.negotiation_messages();
  json["diagnosis"] = DiagnosisJson(job.diagnosis());
  json["flight"] = job.flight();
  if (job.has_rank_history()) json["rank_history"] = HistoryJson(job.rank_history());
  if (job.has_network_history()) json["network_history"] = NetworkJson(job.network_history());
  json["workers"] = Json::array();
  for (const v1::WorkerStatus& worker : job.workers()) json["workers"].push_back(WorkerJson(worker));
  if (job.summary().has_elastic()) {
    json["barred_hosts"] = Json::array();
    for (const v1::BarredHost& host : job.barred_hosts()) {
      json["barred_hosts"].push_back(
          {{"hostname", host.hostname()}, {"failures", host.failures()}, {"barred_ms", host.barred_ms()}});
    }
  }
  if (job.has_wanted_checkpoint()) json["wanted_checkpoint"] = WantedCheckpointJson(job.wanted_checkpoint());
  json["history"] = DecisionsJson(job);
  return json;
}

Json CheckpointJson(const v1::Checkpoint& checkpoint) {
  Json json;
  json["name"] = checkpoint.name();
  json["step"] = checkpoint.step();
  json["token"] = checkpoint.token();
  json["size_bytes"] = checkpoint.size_bytes();
  json["sha256"] = absl::BytesToHexString(checkpoint.sha256());
  json["committed_unix_ms"] = checkpoint.committed_unix_ms();
  json["epoch"] = checkpoint.epoch();
  json["path"] = checkpoint.path();
  return json;
}

Json WantedCheckpointJson(const v1::WantedCheckpoint& wanted) {
  Json json;
  json["serial"] = wanted.serial();
  json["state"] = wanted.over_unix_ms() == 0 ? "pending" : wanted.has_checkpoint() ? "written" : "failed";
  json["asker"] = wanted.asker();
  json["since_unix_ms"] = wanted.since_unix_ms();
  json["times"] = wanted.times();
  json["told_unix_ms"] = wanted.told_unix_ms();
  json["over_unix_ms"] = wanted.over_unix_ms();
  if (wanted.has_checkpoint()) json["checkpoint"] = CheckpointJson(wanted.checkpoint());
  if (!wanted.failure().empty()) json["failure"] = wanted.failure();
  return json;
}

std::string ShowJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace farandole
