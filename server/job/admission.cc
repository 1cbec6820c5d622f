#include "server/job/admission.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/text/time_text.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/own_launch.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

// A process that was started for a run and joins only when that has finished: an interpreter and a framework take
// seconds to load.
constexpr absl::Duration kLateStart = absl::Seconds(30);
// For so long a launch has the job before its first worker has joined. Launchers renew their claims (run_claim.cc).
constexpr absl::Duration kClaim = absl::Seconds(30);

// Of a launch's `who`, in a sentence.
constexpr size_t kMostWho = 256;

// "started by alice on node7 (process 4711), at 2026-11-25T00:01:02Z".
std::string DescribeLaunch(const v1::Launch& launch) {
  const std::string who =
      launch.who().empty() ? "without a launcher" : absl::StrCat("by ", Plain(launch.who(), kMostWho));
  if (launch.since_unix_ms() == 0) return absl::StrCat("started ", who);
  const absl::Time since = absl::FromUnixMillis(launch.since_unix_ms());
  return absl::StrCat("started ", who, ", at ", UtcText(since));
}

// At the end of Launch.who in the record of a job that workers of another job's run have formed among themselves. It
// tells this record from that of a job which was launched by such a name.
std::string PartText(const std::string& parent) { return absl::StrCat(", as a part of job ", parent); }

}  // namespace

absl::StatusOr<v1::Launch> Admission::Claim(const v1::CreateJobRequest& request) {
  if (absl::Status status = CheckCreateJob(request); !status.ok()) return status;
  const std::string& nonce = request.launch().nonce();
  const v1::Launch& last = ledger_.record().launch();
  const v1::Launch* holder = request.release() ? nullptr : Holder();
  if (holder != nullptr && !IsSameLaunch(*holder, request.launch())) {
    if (request.attach()) {
      job_.launch_tokens.TakePart(holder->nonce(), request.launch().token_id());
      return *holder;
    }
    return absl::AlreadyExistsError(
        absl::StrCat("job ", ledger_.name(), " is ", DescribeLaunch(*holder), "; this is another launch, by ",
                     Plain(request.launch().who(), kMostWho),
                     ": give the job another name (--job), or take part in that run (--attach)"));
  }
  for (const v1::Launch* known : {&std::as_const(claim_), &last}) {
    if (absl::Status status = CheckNonce(ledger_.name(), *known, request.launch()); !status.ok()) return status;
  }
  if (request.release()) {
    if (claim_.nonce() == nonce) claimed_at_ = absl::InfinitePast();
    return request.launch();
  }
  // Its workers have begun a run, which goes on, or is over and leaves the name to others.
  if (last.nonce() == nonce && (IsAnybodyThere() || !job_.IsOngoing())) return last;
  if (last.nonce() == nonce) claim_ = last;
  if (claim_.nonce() != nonce) {
    claim_ = request.launch();
    claim_.set_since_unix_ms(absl::ToUnixMillis(ledger_.now() + ledger_.wall_ahead()));
  }
  claimed_at_ = ledger_.now();
  return claim_;
}

absl::Time Admission::ClaimEnd() const {
  const absl::Time end = claimed_at_ + kClaim;
  return end > ledger_.now() ? end : absl::InfiniteFuture();
}

const v1::Launch* Admission::Holder() const {
  if (IsAnybodyThere()) return &ledger_.record().launch();
  return ClaimEnd() != absl::InfiniteFuture() ? &claim_ : nullptr;
}

absl::Status Admission::CheckLaunchedWith(const std::string& token_id) const {
  const v1::Launch* holder = Holder();
  const v1::Launch& launch = holder != nullptr ? *holder : ledger_.record().launch();
  return CheckOwnLaunch(ledger_.name(), launch, token_id);
}

bool Admission::AwaitsFirstWorker() const {
  return claimed_at_ != absl::InfinitePast() || ledger_.record().created_unix_ms() == 0;
}

bool Admission::IsAnybodyThere() const {
  if (job_.run != nullptr) return !job_.run->IsForsaken();
  return job_.survivors != nullptr || !job_.lobby.IsEmpty();
}

absl::Status Admission::CheckLaunch(const JoinRequested& event) const {
  const v1::Launch& launch = event.launch;
  const v1::Launch* holder = Holder();
  if (holder != nullptr) {
    if (holder->nonce() == launch.nonce()) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("job ", ledger_.name(), " is ", DescribeLaunch(*holder),
                                                 "; this worker was started by another launch, or without one"));
  }
  const v1::Launch& last = ledger_.record().launch();
  if (launch.nonce().empty() || launch.nonce() == last.nonce()) return absl::OkStatus();
  if (absl::Status status = CheckPart(event); !status.ok()) return status;
  if (launch.since_unix_ms() >= last.since_unix_ms()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the worker's credential is of an earlier run of job ",
                                                  ledger_.name(), " than the last, which was ", DescribeLaunch(last)));
}

absl::Status Admission::CheckPart(const JoinRequested& event) const {
  const v1::Launch& last = ledger_.record().launch();
  if (event.part_of.empty() || ledger_.record().created_unix_ms() == 0) return absl::OkStatus();
  if (absl::EndsWith(last.who(), PartText(event.part_of)) || last.token_id() == event.launch.token_id())
    return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the worker's credential is of a run of job ", event.part_of, ", and job ", ledger_.name(),
                   " is no part of that: it was last ", DescribeLaunch(last),
                   "; delete it (farandole job delete), or give job ", event.part_of, " another name"));
}

void Admission::RecordLaunch(const JoinRequested& event) {
  claimed_at_ = absl::InfinitePast();
  const v1::Launch& last = ledger_.record().launch();
  if (event.launch.nonce() == last.nonce() && event.launch.token_id() == last.token_id()) return;
  v1::Launch* const launch = ledger_.Change()->mutable_launch();
  *launch = event.launch;
  launch->set_part_of(event.part_of);
  if (!event.part_of.empty()) launch->mutable_who()->append(PartText(event.part_of));
}

absl::Status Admission::Admit(const JoinRequested& event) {
  const bool is_first = !IsAnybodyThere();
  if (absl::Status status = AdmitPresent(event); !status.ok()) return status;
  if (is_first) {
    RecordLaunch(event);
    job_.launch_tokens.BeginRun();
  }
  NoteStarter(event.request.member().incarnation(), event.token_id);
  return absl::OkStatus();
}

void Admission::NoteStarter(const std::string& incarnation, const std::string& token_id) {
  job_.launch_tokens.NoteWorker(ledger_.record().launch(), incarnation, token_id, [this] {
    absl::flat_hash_set<std::string> present;
    for (const auto& [order, worker] : job_.lobby.workers()) present.insert(worker.member.incarnation());
    for (const v1::Member& member : ledger_.record().epoch().members()) present.insert(member.incarnation());
    return present;
  });
}

absl::Status Admission::AdmitPresent(const JoinRequested& event) {
  const v1::JoinRequest& request = event.request;
  if (absl::Status status = CheckJoin(request); !status.ok()) return status;
  const std::string& incarnation = request.member().incarnation();
  if (const std::string* reason = job_.fence.ReasonFor(incarnation); reason != nullptr) {
    return absl::AbortedError(
        absl::StrCat(DescribeWorker(request.member()), " may not come back and must start anew: ", *reason));
  }
  if (job_.run != nullptr) {
    const Roster& roster = job_.run->roster();
    if (const auto rank = roster.RankOf(incarnation); rank.has_value()) {
      if (!roster.seat(*rank).left) return absl::OkStatus();
      return absl::AbortedError(
          absl::StrCat(roster.Describe(*rank), " has left epoch ", job_.run->epoch().number(), " and must start anew"));
    }
  }
  if (absl::Status status = CheckLaunch(event); !status.ok()) return status;
  // A process of this number lives, whether or not there is a place for it.
  job_.failures.ForgetLoss(request.launch_index());
  if (job_.run != nullptr) {
    const Roster& roster = job_.run->roster();
    if (!job_.IsElastic() && roster.staying() == roster.size() && !job_.run->IsForsaken()) {
      return absl::AlreadyExistsError(absl::StrCat("job ", ledger_.name(), " runs already, with the ",
                                                   Count(roster.size(), "worker"), " that it wants"));
    }
  }
  std::optional<uint32_t> old_rank;
  absl::Status status;
  if (job_.IsOngoing() && job_.IsElastic()) {
    status = AdmitElastic(request, &old_rank);
  } else if (request.has_elastic() && job_.run == nullptr) {
    status = CheckNewRun(request);
  }
  if (status.ok()) status = job_.lobby.Join(request, old_rank, ledger_.now());
  if (status.ok() && old_rank.has_value()) OnSurvivorJoined(*old_rank);
  return status;
}

absl::Status Admission::AdmitElastic(const v1::JoinRequest& request, std::optional<uint32_t>* old_rank) {
  const std::string who = DescribeWorker(request.member());
  const std::string& predecessor = request.predecessor();
  if (job_.lobby.Has(request.member().incarnation())) return absl::OkStatus();
  if (job_.failures.HasExited(request.launch_index()))
    return absl::AbortedError(absl::StrCat(who, " may not join: its launcher has said that its process has ended"));
  if (!job_.IsNobodyLeft() || !job_.lobby.IsEmpty()) {
    if (absl::Status status = CheckSizes(request); !status.ok()) return status;
  }
  const Roster* const roster = job_.PresentRoster();
  if (const std::string* why = job_.drained.ReasonFor(predecessor); why != nullptr) {
    const auto rank = job_.run == nullptr ? std::nullopt : roster->RankOf(predecessor);
    if (rank.has_value()) job_.run->Return(*rank, ledger_.effects());
    return absl::CancelledError(
        absl::StrCat("there is no place for ", who, " in job ", ledger_.name(), " any more: ", *why));
  }
  if (job_.IsFinishing()) {
    return absl::CancelledError(absl::StrCat("there is no place for ", who, ": job ", ledger_.name(),
                                             " is finishing: workers of epoch ", ledger_.record().epoch().number(),
                                             " have left it for good"));
  }
  *old_rank = SurvivorRank(predecessor);
  // The process has joined once more before an epoch was formed.
  const Lobby::Worker* earlier = nullptr;
  if (!predecessor.empty() && job_.lobby.Has(predecessor)) earlier = &job_.lobby.Get(predecessor);
  if (old_rank->has_value() && earlier == nullptr) earlier = job_.lobby.FindSurvivor(**old_rank);
  if (earlier != nullptr) {
    *old_rank = earlier->old_rank;
    const std::string replaced = earlier->member.incarnation(), reason = "the same process has joined once more";
    if (earlier->stream != 0) ledger_.Close(earlier->stream, absl::AbortedError(reason));
    job_.fence.Shut(replaced, reason);
    job_.lobby.Remove(replaced);
    return absl::OkStatus();
  }
  if (old_rank->has_value()) return absl::OkStatus();
  const std::string barred = job_.failures.BarringSentence(request.member(), ledger_.now());
  return barred.empty() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(who, " may not join yet: ", barred));
}

absl::Status Admission::CheckSizes(const v1::JoinRequest& request) const {
  const auto show = [](uint32_t wanted_size, const v1::Elastic& elastic) {
    return absl::StrCat("wanted_size ", wanted_size, ", min_size ", elastic.min_size(), " and max_size ",
                        elastic.max_size());
  };
  const std::string asked = request.has_elastic() ? show(request.wanted_size(), request.elastic())
                                                  : absl::StrCat("wanted_size ", request.wanted_size());
  const std::string present = show(ledger_.record().wanted_size(), ledger_.record().elastic());
  if (asked == present) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(DescribeWorker(request.member()), " asks for ", asked, ", and job ",
                                                 ledger_.name(), " has ", present));
}

absl::Status Admission::CheckNewRun(const v1::JoinRequest& request) const {
  const std::string who = DescribeWorker(request.member());
  const std::string over = absl::StrCat("job ", ledger_.name(), " is over: ", ledger_.record().reason());
  const bool was_in_last_run = !request.predecessor().empty();
  if (ledger_.record().state() == v1::JOB_STATE_FAILED && was_in_last_run)
    return absl::AbortedError(absl::StrCat(who, " cannot go on in it: ", over));
  if (ledger_.record().state() != v1::JOB_STATE_FINISHED) return absl::OkStatus();
  // The processes that begin a run are numbered below its size.
  const bool is_late = job_.IsElastic() && request.launch_index() >= request.wanted_size() && job_.lobby.IsEmpty() &&
                       ledger_.ended_at() + kLateStart > ledger_.now();
  if (was_in_last_run || is_late) return absl::CancelledError(absl::StrCat("there is no place for ", who, ": ", over));
  return absl::OkStatus();
}

std::optional<uint32_t> Admission::SurvivorRank(const std::string& predecessor) const {
  const Roster* const roster = job_.PresentRoster();
  const auto rank = roster == nullptr || predecessor.empty() ? std::nullopt : roster->RankOf(predecessor);
  if (!rank.has_value()) return std::nullopt;
  const Roster::Seat& seat = roster->seat(*rank);
  if (seat.drained || !seat.lost.empty() || (seat.left && !seat.returns)) return std::nullopt;
  const bool is_gone = job_.survivors != nullptr && !job_.survivors->IsAwaited(*rank) && !job_.survivors->IsBack(*rank);
  return is_gone ? std::nullopt : rank;
}

void Admission::OnSurvivorJoined(uint32_t old_rank) {
  if (job_.run != nullptr) return job_.run->Return(old_rank, ledger_.effects());
  const StreamId stream = job_.survivors->Return(old_rank);
  if (stream != 0) ledger_.Close(stream, absl::AbortedError("the worker has joined again"));
}

}  // namespace farandole
