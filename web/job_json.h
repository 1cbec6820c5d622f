#ifndef FARANDOLE_WEB_JOB_JSON_H_
#define FARANDOLE_WEB_JOB_JSON_H_

#include <string>

#include "farandole/v1/monitor.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace farandole {

// Jobs as programs read them, from the HTTP edge's /api/v1 and from `farandole job --json` alike. Field names are those
// of proto/farandole/v1/monitor.proto.

// Its steps a second; null: not measured, or not yet.
nlohmann::ordered_json StepRateJson(const v1::JobSummary& summary);
nlohmann::ordered_json SummaryJson(const v1::JobSummary& summary);
nlohmann::ordered_json DiagnosisJson(const v1::Diagnosis& diagnosis);
nlohmann::ordered_json HistoryJson(const v1::RankHistory& history);
nlohmann::ordered_json NetworkJson(const v1::NetworkHistory& history);
nlohmann::ordered_json WorkerJson(const v1::WorkerStatus& worker);
// The job's newest decisions, oldest first.
nlohmann::ordered_json DecisionsJson(const v1::GetJobResponse& job);
// The summary's fields, and "workers", "history", "negotiation_messages"; where somebody has asked for a checkpoint,
// "wanted_checkpoint".
nlohmann::ordered_json JobJson(const v1::GetJobResponse& job);
nlohmann::ordered_json CheckpointJson(const v1::Checkpoint& checkpoint);
// The last request for a checkpoint: "state" is "pending", "written" or "failed".
nlohmann::ordered_json WantedCheckpointJson(const v1::WantedCheckpoint& wanted);

// Text of `json`; indented by `indent` columns, on one line where that is negative. Bytes that are no UTF-8 (names and
// paths may have some) are replaced.
std::string ShowJson(const nlohmann::ordered_json& json, int indent);

}  // namespace farandole

#endif  // FARANDOLE_WEB_JOB_JSON_H_
