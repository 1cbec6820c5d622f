#include "server/job/dismissal.h"

#include <utility>

#include "absl/status/status.h"

namespace farandole {

void Dismissal::Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason, bool finished) {
  for (const Lobby::Worker& worker : workers) {
    const std::string& incarnation = worker.member.incarnation();
    finished ? job_.fence.Dismiss(incarnation, reason) : job_.fence.Shut(incarnation, reason);
    if (worker.stream != 0) TellDismissal(worker.stream, reason, finished);
  }
}

void Dismissal::DismissLobby(const std::string& reason, bool finished) { Dismiss(job_.lobby.Take(), reason, finished); }

void Dismissal::TellDismissal(StreamId stream, const std::string& reason, bool finished) {
  v1::CoordinatorMessage ended;
  ended.mutable_epoch_ended()->set_reason(reason);
  ended.mutable_epoch_ended()->set_job_ended(true);
  ended.mutable_epoch_ended()->set_job_finished(finished);
  ledger_.Send(stream, Share(std::move(ended)));
  ledger_.Close(stream, finished ? absl::CancelledError(reason) : absl::AbortedError(reason));
}

}  // namespace farandole
