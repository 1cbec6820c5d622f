#include "deploy/cli/coordinators/checkpoint_wait.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/backoff.h"
#include "base/job_state.h"
#include "base/steady_time.h"
#include "base/text/shown_text.h"
#include "deploy/cli/coordinators/coordinator_session.h"

namespace farandole {
namespace {

// How often the job is looked at: soon at first, then about once a second, as an answer has all of its workers. These
// are looks at a job that answers, and no retries, so they begin later than kFirstRetryDelay.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// After so long it is said that none has come.
constexpr absl::Duration kSilence = absl::Seconds(30);

// A sentence about a pending request.
std::string PendingSentence(const v1::JobSummary& job, const v1::WantedCheckpoint& wanted, const absl::Status& look,
                            absl::Duration since) {
  const std::string seconds = absl::StrFormat("%.0f s", absl::ToDoubleSeconds(since));
  if (!look.ok())
    return absl::StrCat("job ", job.job(), ": its coordinator has not said for ", seconds,
                        " whether the checkpoint is written: ", look.message());
  if (wanted.told_unix_ms() != 0)
    return absl::StrCat("job ", job.job(),
                        ": its program was told of the request, and has committed no checkpoint for ", seconds);
  return absl::StrCat("job ", job.job(), ": its program does not know of the request after ", seconds,
                      ": its ranks have not all called hvd.checkpoint_requested()");
}

// The job as its coordinator tells it, or the disk. The catalogue is read only where the last request is not the one
// with the number `serial`.
absl::StatusOr<KeptJob> Look(const KnownJob& job, uint64_t serial) {
  if (job.session == nullptr) return job.kept;
  const std::string& tenant = job.summary.tenant();
  absl::StatusOr<v1::GetJobResponse> told = job.session->GetJob(tenant, job.summary.job());
  if (!told.ok()) return told.status();
  KeptJob seen = {*std::move(told), {}};
  if (seen.job.wanted_checkpoint().serial() == serial) return seen;
  absl::StatusOr<v1::ListCheckpointsResponse> catalogue = job.session->ListCheckpoints(tenant, job.summary.job());
  if (!catalogue.ok()) return catalogue.status();
  seen.checkpoints = *std::move(catalogue);
  return seen;
}

// The same; where the job's coordinator is away, as another one tells it, or the disk. UNAVAILABLE: none does.
absl::StatusOr<KeptJob> LookAnywhere(const KnownJob& job, uint64_t serial, const CoordinatorSource& source) {
  absl::StatusOr<KeptJob> seen = Look(job, serial);
  if (!absl::IsUnavailable(seen.status())) return seen;
  const absl::StatusOr<Survey> survey = AskAll(source, absl::Now());
  if (!survey.ok()) return seen.status();
  const absl::StatusOr<KnownJob> elsewhere = FindJob(*survey, source, job.summary.tenant(), job.summary.job());
  return elsewhere.ok() ? Look(*elsewhere, serial) : seen.status();
}

// The end of the request; a checkpoint without a token: it is pending.
absl::StatusOr<v1::Checkpoint> Outcome(const v1::WantedCheckpoint& asked, const KeptJob& seen) {
  const v1::JobSummary& job = seen.job.summary();
  const v1::WantedCheckpoint& last = seen.job.wanted_checkpoint();
  if (last.serial() < asked.serial())
    return absl::AbortedError(absl::StrCat("job ", job.job(), " was deleted, and another one has its name"));
  // A later request has taken its place; what was written meanwhile is for this one.
  const auto after = absl::c_find_if(seen.checkpoints.checkpoints(), [&asked](const v1::Checkpoint& checkpoint) {
    return checkpoint.token() > asked.after_token();
  });
  if (last.serial() > asked.serial() && after != seen.checkpoints.checkpoints().end()) return *after;
  if (last.has_checkpoint()) return last.checkpoint();
  if (last.over_unix_ms() == 0 && !HasEnded(job.state())) return v1::Checkpoint();
  const std::string& why = last.over_unix_ms() == 0 ? job.reason() : last.failure();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.job(), " has written no checkpoint: ", WithoutControls(why)));
}

}  // namespace

absl::StatusOr<v1::Checkpoint> AwaitCheckpoint(const KnownJob& job, const v1::WantedCheckpoint& asked,
                                               const CoordinatorSource& source, absl::Duration patience,
                                               std::ostream& err) {
  const absl::Time begin = SteadyNow();
  Backoff pause(kFirstPause, kLongestPause);
  v1::WantedCheckpoint last = asked;
  absl::Status trouble;
  for (bool has_warned = false;;) {
    const absl::Duration since = SteadyNow() - begin;
    const std::string pending = PendingSentence(job.summary, last, trouble, since);
    if (since >= patience) return absl::DeadlineExceededError(pending);
    if (since >= kSilence && !std::exchange(has_warned, true))
      err << "farandole job: " << pending << "; still waiting\n" << std::flush;
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(std::min(pause.Next(), patience - since))));
    const absl::StatusOr<KeptJob> seen = LookAnywhere(job, asked.serial(), source);
    trouble = absl::IsUnavailable(seen.status()) ? seen.status() : absl::OkStatus();
    if (!trouble.ok()) continue;
    if (!seen.ok()) return seen.status();
    last = seen->job.wanted_checkpoint();
    const absl::StatusOr<v1::Checkpoint> outcome = Outcome(asked, *seen);
    if (!outcome.ok() || outcome->token() != 0) return outcome;
  }
}

}  // namespace farandole
