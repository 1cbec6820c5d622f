#include "server/queue/queued_job.h"

#include <string>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/job/rules/own_launch.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// The token of which alone the job may be, where a launcher's asks; "": any may ask.
const std::string& OnlyOfToken(const Event& event) {
  static const std::string any;
  if (const auto* abort = std::get_if<AbortRequested>(&event)) return abort->only_of_token;
  if (const auto* drain = std::get_if<DrainRequested>(&event)) return drain->only_of_token;
  if (const auto* asked = std::get_if<CheckpointAsked>(&event)) return asked->only_of_token;
  if (const auto* ended = std::get_if<ExitReported>(&event)) return ended->only_of_token;
  if (const auto* flight = std::get_if<FlightReported>(&event)) return flight->only_of_token;
  return any;
}

}  // namespace

void LogOf(const std::string& name, const std::string& sentence) {
  spdlog::default_logger_raw()->clone(name)->info(sentence);
}

void LogOfTenant(const std::string& tenant, const std::string& sentence) {
  LogOf(absl::StrCat("tenant ", tenant), sentence);
}

v1::JobSummary ShowQueued(const v1::QueuedRecord& record, const v1::QueuePlace& place) {
  v1::JobSummary summary;
  summary.set_tenant(record.tenant());
  summary.set_job(record.job());
  summary.set_state(v1::JOB_STATE_QUEUED);
  summary.set_reason(
      absl::StrCat("place ", place.position(), " of ", place.length(), " in the queue: ", place.reason()));
  summary.set_wanted_size(record.most_workers());
  summary.set_created_unix_ms(record.launch().since_unix_ms());
  *summary.mutable_queue() = place;
  return summary;
}

std::optional<Reply> AnswerQueued(const v1::QueuedRecord& record, const v1::QueuePlace& place, bool has_run,
                                  const Event& event) {
  const absl::Status allowed = CheckOwnLaunch(record.job(), record.launch(), OnlyOfToken(event));
  const absl::Status waits = absl::FailedPreconditionError(absl::StrCat(
      "job ", record.job(), " waits in the queue and has no workers; farandole job abort gives its place up"));
  return std::visit(
      [&](const auto& one) -> std::optional<Reply> {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, AbortRequested>) {
          if (!allowed.ok()) return Reply{one.call, allowed, {}};
          return Reply{one.call, absl::OkStatus(), v1::AbortJobResponse()};
        } else if constexpr (std::is_same_v<T, DrainRequested> || std::is_same_v<T, CheckpointAsked>) {
          return Reply{one.call, allowed.ok() ? waits : allowed, {}};
        } else if constexpr (std::is_same_v<T, ExitReported> || std::is_same_v<T, FlightReported>) {
          // They may be of the run before.
          if (has_run || allowed.ok()) return std::nullopt;
          constexpr bool is_exit = std::is_same_v<T, ExitReported>;
          return Reply{
              one.call, is_exit ? CheckReporter(record.job(), record.launch(), one.only_of_token) : allowed, {}};
        } else if constexpr (std::is_same_v<T, DeleteRequested> || std::is_same_v<T, TimelineOrdered> ||
                             std::is_same_v<T, EvidenceRequested> || std::is_same_v<T, CollectivesSurveyed>) {
          return Reply{one.call, waits, {}};
        } else if constexpr (std::is_same_v<T, JobInspected>) {
          if (has_run) return std::nullopt;
          v1::GetJobResponse response;
          *response.mutable_summary() = ShowQueued(record, place);
          return Reply{one.call, absl::OkStatus(), std::move(response)};
        } else if constexpr (std::is_same_v<T, CheckpointsListed>) {
          if (has_run) return std::nullopt;
          return Reply{one.call, absl::OkStatus(), v1::ListCheckpointsResponse()};
        } else if constexpr (std::is_same_v<T, LoggedListed>) {
          if (has_run) return std::nullopt;
          return Reply{one.call, absl::OkStatus(), v1::ListLoggedResponse()};
        } else {
          return std::nullopt;
        }
      },
      event);
}

}  // namespace farandole
