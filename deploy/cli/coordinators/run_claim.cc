#include "deploy/cli/coordinators/run_claim.h"

#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/steady_time.h"

namespace farandole {
namespace {

// A third of the time for which a coordinator holds the name (kClaim of server/job/admission.cc).
constexpr absl::Duration kRenewal = absl::Seconds(10);
// For so long a coordinator holds the answer to a launch that waits, where it has nothing new to say.
constexpr absl::Duration kHold = absl::Seconds(5);
// A coordinator that hangs does not keep a launch from its end for longer.
constexpr absl::Duration kReleaseLimit = absl::Seconds(1);

std::string RandomNonce() {
  std::random_device source;
  std::string nonce;
  for (int i = 0; i < 8; ++i) absl::StrAppend(&nonce, absl::StrFormat("%08x", source()));
  return nonce;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunClaim>> RunClaim::Take(CoordinatorSession session, v1::CreateJobRequest request,
                                                         absl::Duration patience,
                                                         const std::function<bool()>& interrupted,
                                                         const std::function<void(const v1::QueuePlace&)>& on_place) {
  request.mutable_launch()->set_nonce(RandomNonce());
  absl::StatusOr<v1::CreateJobResponse> created = session.CreateJob(request, patience, interrupted);
  bool has_waited = false;
  while (created.ok() && created->has_queue()) {
    has_waited = true;
    on_place(created->queue());
    request.set_seen_place(created->queue().serial());
    request.set_hold_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(kHold)));
    created = session.CreateJob(request, patience, interrupted);
  }
  // Its answer may have been lost: the launch may wait, or have the name.
  if (!created.ok() && (has_waited || interrupted())) Release(session, request);
  if (!created.ok()) return created.status();
  const bool is_own = created->launch().nonce() == request.launch().nonce();
  *request.mutable_launch() = created->launch();
  // To renew a claim is not to wait for another.
  request.set_may_wait(false);
  return std::unique_ptr<RunClaim>(
      new RunClaim(std::move(session), std::move(request), is_own, std::move(*created->mutable_token())));
}

void RunClaim::Release(const CoordinatorSession& session, v1::CreateJobRequest request) {
  request.set_release(true);
  // Without an answer the name is free after the time for which the coordinator holds it.
  const absl::Time limit = SteadyNow() + kReleaseLimit;
  (void)session.CreateJob(request, absl::ZeroDuration(), [limit] { return SteadyNow() >= limit; });
}

RunClaim::RunClaim(CoordinatorSession session, v1::CreateJobRequest request, bool is_own, std::string token)
    : session_(std::move(session)),
      request_(std::move(request)),
      is_own_(is_own),
      token_(std::move(token)),
      renewal_([this] { Renew(); }) {}

RunClaim::~RunClaim() {
  over_.Notify();
  renewal_.join();
  if (is_own_) Release(session_, request_);
}

void RunClaim::Renew() {
  while (!over_.WaitFor(kRenewal)) {
    // A launch that takes part in the run of another token's launch has its name from that, which renews it.
    if (request_.launch().nonce().empty()) continue;
    // A coordinator that is away, or has given the name to another launch meanwhile, tells the workers when they join.
    (void)session_.CreateJob(request_, absl::ZeroDuration(), [this] { return over_.WaitFor(absl::ZeroDuration()); });
  }
}

}  // namespace farandole
