#include "web/job_json.h"

#include "absl/strings/escaping.h"
#include "base/job_state_name.h"
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
  if (!worker.has_gpu()) return json;
  json["gpu"]["name"] = worker.gpu().name();
  AddLoad(worker.gpu(), worker.gpu().has_busy_percent(), &json["gpu"]);
  return json;
}

}  // namespace

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
  json["last_stall"] = summary.last_stall();
  json["last_stall_unix_ms"] = summary.last_stall_unix_ms();
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
  json["workers"] = Json::array();
  for (const v1::WorkerStatus& worker : job.workers()) json["workers"].push_back(WorkerJson(worker));
  if (job.summary().has_elastic()) {
    json["barred_hosts"] = Json::array();
    for (const v1::BarredHost& host : job.barred_hosts()) {
      json["barred_hosts"].push_back(
          {{"hostname", host.hostname()}, {"failures", host.failures()}, {"barred_ms", host.barred_ms()}});
    }
  }
  json["history"] = Json::array();
  for (const v1::HistoryEntry& entry : job.history())
    json["history"].push_back({{"at_unix_ms", entry.at_unix_ms()}, {"sentence", entry.sentence()}});
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

std::string ShowJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace farandole
