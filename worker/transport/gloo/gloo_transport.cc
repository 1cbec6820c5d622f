#include "worker/transport/gloo/gloo_transport.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/steady_time.h"

namespace farandole {

GlooTransport::GlooTransport(int rank, int size, PeerPort* port, Doorbell* bell, absl::Duration connect_limit)
    : rank_(rank), port_(port), bell_(bell), connect_limit_(connect_limit), pairs_(static_cast<size_t>(size)) {}

GlooTransport::~GlooTransport() {
  for (const std::shared_ptr<GlooPair>& pair : pairs_) {
    if (pair != nullptr) pair->Stop();
  }
  for (const std::shared_ptr<GlooPair>& pair : pairs_) {
    if (pair != nullptr) pair->Join();
  }
}

GlooPair& GlooTransport::PairOf(int rank) {
  FD_CHECK(rank >= 0 && rank < size() && rank != rank_)
      << "a transfer between rank " << rank_ << " and rank " << rank << " of " << size();
  std::shared_ptr<GlooPair>& pair = pairs_[static_cast<size_t>(rank)];
  if (pair != nullptr) return *pair;
  GlooPair::Events events;
  events.on_complete = [this] {
    completed_.store(true);
    bell_->Summon();
  };
  events.on_failure = [this](absl::Status reason) {
    Abort(std::move(reason));
    bell_->Summon();
  };
  auto made = std::make_shared<GlooPair>(GlooPair::Ends{rank_, size(), rank, port_->who(rank)}, &devices_,
                                         std::move(events), connect_limit_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pair = made;
    if (failed_.load()) made->Stop();
  }
  // The side that connects reports when it cannot. The side that waits has no limit: its peer may have much to do.
  const absl::Time deadline = rank > rank_ ? SteadyNow() + connect_limit_ : absl::InfiniteFuture();
  port_->Connect(rank, PeerPort::Purpose::kData, deadline,
                 [weak = std::weak_ptr<GlooPair>(made)](absl::StatusOr<PeerSocket> made) {
                   FD_CHECK(!made.ok() || !made->secrets.has_value()) << "Gloo encrypts nothing";
                   if (const std::shared_ptr<GlooPair> alive = weak.lock()) {
                     alive->Connected(made.ok() ? absl::StatusOr<int>(made->fd) : made.status());
                   } else if (made.ok()) {
                     close(made->fd);
                   }
                 });
  return *pair;
}

absl::StatusOr<bool> GlooTransport::Progress() {
  if (failed_.load()) {
    if (!std::exchange(settled_, true)) {
      for (const std::shared_ptr<GlooPair>& pair : pairs_) {
        if (pair != nullptr) pair->Settle();
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    return error_;
  }
  if (!completed_.exchange(false)) return false;
  bool moved = false;
  for (const std::shared_ptr<GlooPair>& pair : pairs_) {
    if (pair != nullptr && pair->TakeCompleted()) moved = true;
  }
  return moved;
}

void GlooTransport::Abort(absl::Status reason) {
  FD_CHECK(!reason.ok()) << "an epoch does not end without a reason";
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_.load()) return;
  error_ = std::move(reason);
  failed_.store(true);
  for (const std::shared_ptr<GlooPair>& pair : pairs_) {
    if (pair != nullptr) pair->Stop();
  }
}

}  // namespace farandole
