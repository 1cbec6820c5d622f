#ifndef FARANDOLE_SERVER_EDGE_ROUTES_JOB_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_JOB_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/monitor.pb.h"
#include "nlohmann/json_fwd.hpp"
#include "server/audit/audit_log.h"
#include "server/edge/call_router.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"
#include "server/registry/rights.h"
#include "web/http_message.h"

namespace farandole {

// Common parts of the routes about one job.

// The reply that says this error, with the HTTP status that its code comes nearest to, and when to ask again if the
// error says so.
HttpReply Refuse(const absl::Status& status);
// No reply of these routes has a secret: it may be compressed.
HttpReply Reply200(const nlohmann::ordered_json& json);
// The same, written later (HttpReply::complete): it may be of thousands of workers, for which no other job is to wait.
HttpReply Reply200Later(std::function<nlohmann::ordered_json()> write);
// A file that the browser keeps under this name.
HttpReply FileReply(const std::string& content_type, const std::string& name);

// The cost of a look at all jobs that a caller may see, in bytes of its tenant's pace.
int64_t PaceOfAllJobs(const JobRegistry& registry, const HttpIdentity& identity);

// The owner of the caller's token, with the rights of its role.
Access AccessOf(const HttpIdentity& identity);
// As which a caller looks at jobs.
Access ReaderOf(const HttpIdentity& identity);
// The job of /api/v1/jobs/NAME[/...], for one who looks. Errors: CallRouter::KeyFor's and TakePace's.
absl::StatusOr<JobKey> JobToRead(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity);

// The job as the list shows it. NOT_FOUND: there is none.
absl::StatusOr<v1::JobSummary> FindJob(const JobRegistry* registry, const JobKey& key);

// A call about a job that its caller may make, as the audit log names it.
struct JobAction {
  Access caller;
  JobKey job;
  AuditLog::Call audited;
};
// Of what the audit log has no line yet. `path`: the route's. PERMISSION_DENIED: a page of another site has sent it, or
// the caller has not this right; KeyFor's and TakePace's errors.
absl::StatusOr<JobAction> AdmitCall(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity,
                                    Right right, absl::string_view path);
// Writes the line of a call that AdmitCall has admitted: it is in the audit log, synced, on return. NOT_FOUND: there is
// no such job, and no line; RESOURCE_EXHAUSTED: of AuditLog::AllowChange; UNAVAILABLE: the log cannot be written.
absl::Status Audit(CallRouter* router, const JobRegistry* registry, const JobAction& action);
// For a change: AdmitCall, and then Audit, with the errors of both.
absl::StatusOr<JobAction> AdmitAction(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                                      const HttpIdentity& identity, Right right, absl::string_view path);
// Refuses a call that Audit has a line of. The audit log gets the failure's line when the edge's thread completes
// the reply, so that a job loop's thread does not wait for the disk.
HttpReply RefuseAction(CallRouter* router, const JobAction& action, const absl::Status& why);

// Asks a job one question for `caller`. On a job loop's thread `use(Message, answer)` gets its answer, or `answer` gets
// `refuse(status)`.
template <typename Message, typename MakeEvent, typename Use, typename MakeRefusal>
void AskJobOr(CallRouter* router, const Access& caller, const JobKey& key, const MakeEvent& make_event,
              HttpAnswer answer, Use use, MakeRefusal refuse) {
  router->Push(
      key, make_event,
      [answer = std::move(answer), use = std::move(use), refuse = std::move(refuse)](const absl::Status& status,
                                                                                     ReplyMessage message) {
        auto* found = std::get_if<Message>(&message);
        if (!status.ok()) return answer(refuse(status));
        if (found == nullptr) return answer(HttpError(500, "the job's answer is of another call's type"));
        use(std::move(*found), answer);
      },
      IsOfCluster(caller.role));
}

// The same; a refusal says the status.
template <typename Message, typename MakeEvent, typename Use>
void AskJob(CallRouter* router, const Access& caller, const JobKey& key, const MakeEvent& make_event, HttpAnswer answer,
            Use use) {
  AskJobOr<Message>(router, caller, key, make_event, std::move(answer), std::move(use), Refuse);
}

// The same for a call that Audit has a line of: the audit log has its failure too.
template <typename Message, typename MakeEvent, typename Use>
void CarryOut(CallRouter* router, const JobAction& action, const MakeEvent& make_event, HttpAnswer answer, Use use) {
  AskJobOr<Message>(router, action.caller, action.job, make_event, std::move(answer), std::move(use),
                    [router, action](const absl::Status& status) { return RefuseAction(router, action, status); });
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_JOB_ROUTES_H_
