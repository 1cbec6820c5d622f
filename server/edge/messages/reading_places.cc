#include "server/edge/messages/reading_places.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"

namespace farandole {
namespace {

// Half of gRPC's buffers are for these messages, the other half for those of streams.
constexpr uint64_t kBuffersPart = 2;
constexpr size_t kLeastPlaces = 4;
constexpr size_t kMostPlaces = 256;
constexpr size_t kClientPart = 8;

// Of a call whose message is not read: what gRPC holds of it, and its window.
constexpr uint64_t kWaitingBytes = 88 << 10;
constexpr uint64_t kMemoryPart = 16;
constexpr size_t kLeastWaiting = 256;
constexpr size_t kMostWaiting = 4096;
// When a place is given back, so many clients are looked at in vain, whose owners have all that they may.
constexpr size_t kLooks = 64;

}  // namespace

ReadingPlaces::Limits ReadingPlaces::LimitsFor(uint64_t memory, uint64_t buffers) {
  const auto places = static_cast<size_t>(buffers / kBuffersPart / kMaxMessageBytes);
  const auto waiting = static_cast<size_t>(memory / kMemoryPart / kWaitingBytes);
  return {std::clamp(places, kLeastPlaces, kMostPlaces), std::clamp(waiting, kLeastWaiting, kMostWaiting)};
}

ReadingPlaces::Place& ReadingPlaces::Place::operator=(Place&& other) noexcept {
  Leave();
  places_ = std::exchange(other.places_, nullptr);
  client_ = std::move(other.client_);
  return *this;
}

void ReadingPlaces::Place::Leave() {
  if (ReadingPlaces* const places = std::exchange(places_, nullptr); places != nullptr) places->Leave(client_);
}

bool ReadingPlaces::MayTake(const Owner& owner, const Queue& client) const {
  return owner.taken < limits_.places - taken_ && client.taken < std::max<size_t>(1, limits_.places / kClientPart);
}

void ReadingPlaces::TakeLocked(Owner* owner, Queue* client) {
  ++taken_;
  ++owner->taken;
  ++client->taken;
}

void ReadingPlaces::DropGone(Owner* owner, Queue* client) {
  while (!client->waiting.empty() && client->waiting.front().owner.expired()) {
    client->waiting.pop_front();
    --owner->waiting;
    --waiting_;
  }
}

absl::Status ReadingPlaces::Enter(const Client& client, Waiter waiter) {
  {
    absl::MutexLock lock(&mutex_);
    Owner& owner = owners_[client.owner];
    Queue& queue = owner.clients[client.name];
    if (!queue.waiting.empty() || !MayTake(owner, queue)) return AwaitLocked(client, &owner, &queue, std::move(waiter));
    TakeLocked(&owner, &queue);
  }
  waiter.go(Place(this, client));
  return absl::OkStatus();
}

absl::Status ReadingPlaces::AwaitLocked(const Client& client, Owner* owner, Queue* queue, Waiter waiter) {
  const bool has_turn = !queue->waiting.empty();
  DropGone(owner, queue);
  if (owner->waiting < limits_.waiting - waiting_) {
    if (!has_turn) turns_.push_back(client);
    queue->waiting.push_back(std::move(waiter));
    ++owner->waiting;
    ++waiting_;
    return absl::OkStatus();
  }
  const size_t most = owner->waiting;
  if (!has_turn) ForgetIfIdle(client);
  return WithRetryDelay(absl::ResourceExhaustedError(
                            absl::StrCat(most, " calls of ", client.owner, " wait for their messages to be read, and ",
                                         "no more may; retry in ", absl::FormatDuration(kRetryWhenFull))),
                        kRetryWhenFull);
}

void ReadingPlaces::Leave(const Client& client) {
  {
    absl::MutexLock lock(&mutex_);
    Owner& own = owners_[client.owner];
    --taken_;
    --own.taken;
    --own.clients[client.name].taken;
    ForgetIfIdle(client);
  }
  for (size_t in_vain = 0; in_vain < kLooks;) {
    std::optional<std::pair<Go, Client>> next;
    {
      absl::MutexLock lock(&mutex_);
      if (turns_.empty() || taken_ == limits_.places) return;
      next = NextLocked();
    }
    if (next.has_value()) {
      next->first(Place(this, next->second));
    } else {
      ++in_vain;
    }
  }
}

std::optional<std::pair<ReadingPlaces::Go, ReadingPlaces::Client>> ReadingPlaces::NextLocked() {
  Client client = std::move(turns_.front());
  turns_.pop_front();
  Owner& owner = owners_[client.owner];
  Queue& queue = owner.clients[client.name];
  DropGone(&owner, &queue);
  std::optional<std::pair<Go, Client>> next;
  if (!queue.waiting.empty() && MayTake(owner, queue)) {
    next.emplace(std::move(queue.waiting.front().go), client);
    queue.waiting.pop_front();
    --owner.waiting;
    --waiting_;
    TakeLocked(&owner, &queue);
  }
  if (queue.waiting.empty()) {
    ForgetIfIdle(client);
  } else {
    turns_.push_back(std::move(client));
  }
  return next;
}

void ReadingPlaces::ForgetIfIdle(const Client& client) {
  const auto owner = owners_.find(client.owner);
  const auto queue = owner->second.clients.find(client.name);
  if (queue->second.taken == 0 && queue->second.waiting.empty()) owner->second.clients.erase(queue);
  if (owner->second.clients.empty()) owners_.erase(owner);
}

size_t ReadingPlaces::taken() const {
  absl::MutexLock lock(&mutex_);
  return taken_;
}

size_t ReadingPlaces::waiting() const {
  absl::MutexLock lock(&mutex_);
  return waiting_;
}

}  // namespace farandole
