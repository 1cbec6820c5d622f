#include "server/edge/routes/hang_routes.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/job_state.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "web/files/evidence_archive.h"
#include "web/files/hang_json.h"
#include "web/form_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;
// The ranks' answers. shared: by the reply, which is written later (HttpReply::complete), and copied on its way.
using Said = std::shared_ptr<const v1::DiagnoseResponse>;
using Found = std::function<void(const absl::Status&, Said)>;

constexpr char kHang[] = "/api/v1/jobs/*/hang";
constexpr char kArchive[] = "/api/v1/jobs/*/hang/archive";
constexpr char kStacks[] = "/api/v1/jobs/*/stacks";
// Of evidence in an archive, which the edge writes twice as JSON and packs on its one thread. A rank has some 20 KiB.
constexpr size_t kMostArchiveBytes = 2 << 20;

HttpReply HangReply(const std::string& state, Said said) {
  return Reply200Later([state, said = std::move(said)] {
    Json json{{"state", state}, {"at_unix_ms", absl::ToUnixMillis(absl::Now())}};
    json.update(HangJson(*said));
    return json;
  });
}

HttpReply NothingKept(const absl::Status& why) {
  if (absl::IsResourceExhausted(why)) return Refuse(why);
  const char* const state = absl::IsNotFound(why) ? "none" : absl::IsUnavailable(why) ? "gathering" : "gone";
  return Reply200({{"state", state}, {"at_unix_ms", absl::ToUnixMillis(absl::Now())}, {"why", why.message()}});
}

// The archive of it, with the job as it is now.
void AnswerArchive(CallRouter* router, const Access& viewer, const JobKey& key, Said said, HttpAnswer answer) {
  AskJob<v1::GetJobResponse>(
      router, viewer, key, [](CallId call) { return JobInspected{call}; }, std::move(answer),
      [name = key.job, said = std::move(said)](v1::GetJobResponse found, const HttpAnswer& last) {
        HttpReply reply = FileReply("application/gzip", absl::StrCat("farandole-", name, ".tar.gz"));
        // shared: as above.
        const auto job = std::make_shared<const v1::GetJobResponse>(std::move(found));
        reply.complete = [job, said](HttpReply* complete) {
          const absl::StatusOr<std::string> packed =
              PackEvidence(*job, EvidenceWithin(*said, kMostArchiveBytes), "the dashboard", absl::Now());
          if (packed.ok()) complete->body = *packed;
          if (!packed.ok()) *complete = Refuse(packed.status());
        };
        last(std::move(reply));
      });
}

void Ask(CallRouter* router, const Access& viewer, const JobKey& key, bool last_stall, Found found) {
  router->Push(
      key,
      [last_stall](CallId call) {
        return EvidenceRequested{call, true, last_stall};
      },
      [found = std::move(found)](const absl::Status& status, ReplyMessage message) {
        auto* said = std::get_if<v1::DiagnoseResponse>(&message);
        if (status.ok() && said == nullptr)
          return found(absl::InternalError("the job's answer is of another call's type"), nullptr);
        found(status, status.ok() ? std::make_shared<const v1::DiagnoseResponse>(std::move(*said)) : nullptr);
      },
      IsOfCluster(viewer.role));
}

// Of a job that is over, what was read when its workers ended comes first; to one that runs, the same question would go
// to its workers.
void FindKept(CallRouter* router, const Access& viewer, const JobKey& key, v1::JobState state, Found found) {
  if (!HasEnded(state)) return Ask(router, viewer, key, /*last_stall=*/true, std::move(found));
  Ask(router, viewer, key, /*last_stall=*/false,
      [router, viewer, key, found = std::move(found)](const absl::Status& status, Said said) {
        if (status.ok() && said->ranks_size() > 0) return found(status, std::move(said));
        Ask(router, viewer, key, /*last_stall=*/true, found);
      });
}

// The answer to give, which holds a place; nullopt: the tenant has none, and `answer` was called.
std::optional<HttpAnswer> Admit(const HangPlaces& places, bool as_archive, const HttpIdentity& identity,
                                HttpAnswer answer) {
  return (as_archive ? places.files : places.whole_jobs)->Take(identity, std::move(answer));
}

void AnswerKept(CallRouter* router, const JobRegistry* registry, const HangPlaces& places, const HttpRequest& request,
                const HttpIdentity& identity, bool as_archive, HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const absl::StatusOr<v1::JobSummary> job = FindJob(registry, *key);
  if (!job.ok()) return answer(Refuse(job.status()));
  std::optional<HttpAnswer> held = Admit(places, as_archive, identity, std::move(answer));
  if (!held.has_value()) return;
  FindKept(router, ReaderOf(identity), *key, job->state(),
           [router, viewer = ReaderOf(identity), key = *key, as_archive, answer = *std::move(held)](
               const absl::Status& status, Said said) {
             if (!status.ok()) return answer(as_archive ? Refuse(status) : NothingKept(status));
             router->TakePaceOfAnswer(viewer, said->ByteSizeLong());
             if (as_archive) return AnswerArchive(router, viewer, key, std::move(said), answer);
             answer(HangReply("kept", std::move(said)));
           });
}

// Threads of the workers' processes are stopped for a moment: that is audited, although it changes nothing.
void AskNow(CallRouter* router, const JobRegistry* registry, const HangPlaces& places, const HttpRequest& request,
            const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobAction> call = AdmitCall(router, request, identity, Right::kView, kStacks);
  if (!call.ok()) return answer(Refuse(call.status()));
  const bool as_archive = QueryValue(request.query, "format") == "archive";
  std::optional<HttpAnswer> held = Admit(places, as_archive, identity, std::move(answer));
  if (!held.has_value()) return;
  const auto event = [](CallId call) { return EvidenceRequested{call, true, false}; };
  const auto use = [router, viewer = call->caller, key = call->job, as_archive](v1::DiagnoseResponse found,
                                                                                const HttpAnswer& last) {
    router->TakePaceOfAnswer(viewer, found.ByteSizeLong());
    auto said = std::make_shared<const v1::DiagnoseResponse>(std::move(found));
    if (as_archive) return AnswerArchive(router, viewer, key, std::move(said), last);
    last(HangReply("asked", std::move(said)));
  };
  // A page that has no place asks again: it has no line before.
  const absl::Status audited = Audit(router, registry, *call);
  if (absl::IsNotFound(audited)) {
    // A launch without workers may have the name: nobody is stopped.
    return AskJob<v1::DiagnoseResponse>(router, call->caller, call->job, event, *std::move(held), use);
  }
  if (!audited.ok()) return (*held)(Refuse(audited));
  CarryOut<v1::DiagnoseResponse>(router, *call, event, *std::move(held), use);
}

}  // namespace

std::vector<HttpRoute> HangRoutes(CallRouter* router, const JobRegistry* registry, const HangPlaces& places) {
  std::vector<HttpRoute> routes;
  for (const bool as_archive : {false, true}) {
    routes.push_back({"GET", as_archive ? kArchive : kHang, HttpAccess::kTenant,
                      [router, registry, places, as_archive](const HttpRequest& request, const HttpIdentity& identity,
                                                             HttpAnswer answer) {
                        AnswerKept(router, registry, places, request, identity, as_archive, std::move(answer));
                      }});
  }
  routes.push_back(
      {"POST", kStacks, HttpAccess::kTenant,
       [router, registry, places](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
         AskNow(router, registry, places, request, identity, std::move(answer));
       }});
  return routes;
}

}  // namespace farandole
