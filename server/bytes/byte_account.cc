#include "server/bytes/byte_account.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/retry/retry_delay.h"

namespace farandole {
namespace {

std::string Show(int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  return bytes < (1 << 20) ? absl::StrFormat("%.1f KiB", count / (1 << 10))
                           : absl::StrFormat("%.1f MiB", count / (1 << 20));
}

const char* Describe(BytePool pool) {
  switch (pool) {
    case BytePool::kQueued:
      return "messages on their way";
    case BytePool::kOutgoing:
      return "messages that workers have not read";
    case BytePool::kAnswers:
      return "answers that clients have not read";
    case BytePool::kPaused:
      return "messages that wait for room";
    case BytePool::kRequests:
      return "large messages of calls";
    case BytePool::kCatalogues:
      return "catalogues of checkpoints";
    case BytePool::kKept:
      break;
  }
  return "memory of its jobs";
}

const char* Describe(ByteClass who) {
  switch (who) {
    case ByteClass::kObserver:
      return " for observers";
    case ByteClass::kJoin:
      return " for those who join";
    case ByteClass::kJob:
      break;
  }
  return "";
}

}  // namespace

ByteCharge& ByteCharge::operator=(ByteCharge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  account_ = std::move(other.account_);
  kind_ = other.kind_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status ByteCharge::Grow(int64_t bytes, ByteClass who) {
  if (account_ == nullptr) return absl::OkStatus();
  if (absl::Status status = account_->Count(kind_, bytes, who); !status.ok()) return status;
  bytes_ += bytes;
  return absl::OkStatus();
}

void ByteCharge::Resize(int64_t bytes) {
  if (account_ == nullptr || bytes == bytes_) return;
  account_->Change(kind_, bytes - bytes_);
  bytes_ = bytes;
}

ByteAccount::ByteAccount(std::string name, Limits limits, std::shared_ptr<ByteAccount> parent)
    : name_(std::move(name)), limits_(limits), parent_(std::move(parent)) {
  for (std::atomic<int64_t>& wake_at : wake_at_) wake_at.store(-1);
}

absl::Status ByteAccount::Take(ByteKind kind, int64_t bytes, ByteClass who, ByteCharge* charge) {
  ByteCharge taken(shared_from_this(), kind);
  if (absl::Status status = taken.Grow(bytes, who); !status.ok()) return status;
  *charge = std::move(taken);
  return absl::OkStatus();
}

absl::Status ByteAccount::CheckFits(ByteKind kind, int64_t bytes, ByteClass who, int64_t divisor) const {
  const int64_t share = ShareOf(who, limit(PoolOf(kind))) / divisor;
  if (bytes <= share) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(name_, ": ", Show(bytes), " of ", NameOf(kind), " at once; ",
                                                   Show(share), " is the most", Describe(who)));
}

ByteCharge ByteAccount::Add(ByteKind kind, int64_t bytes) {
  ByteCharge charge(shared_from_this(), kind);
  charge.Resize(bytes);
  return charge;
}

absl::Status ByteAccount::Count(ByteKind kind, int64_t bytes, ByteClass who) {
  const BytePool pool = PoolOf(kind);
  int64_t below = 0;
  for (ByteAccount* account = this; account != nullptr; account = account->parent_.get()) {
    const int64_t held = account->ChangeHere(kind, bytes);
    if (!account->HasRoomFor(who, pool, held, below)) {
      for (ByteAccount* counted = this; counted != account; counted = counted->parent_.get())
        counted->ChangeHere(kind, -bytes);
      account->ChangeHere(kind, -bytes);
      CountShed(kind);
      return account->Refusal(kind, bytes, who);
    }
    below = held;
  }
  return absl::OkStatus();
}

void ByteAccount::Change(ByteKind kind, int64_t bytes) {
  for (ByteAccount* account = this; account != nullptr; account = account->parent_.get())
    account->ChangeHere(kind, bytes);
}

int64_t ByteAccount::ChangeHere(ByteKind kind, int64_t bytes) {
  const auto pool = static_cast<size_t>(PoolOf(kind));
  held_by_kind_[static_cast<size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
  const int64_t before = held_[pool].fetch_add(bytes);
  const int64_t held = before + bytes;
  if (parent_ != nullptr && (before == 0) != (held == 0)) parent_->holders_[pool].fetch_add(before == 0 ? 1 : -1);
  if (bytes < 0 && held <= wake_at_[pool].load()) Wake();
  return held;
}

bool ByteAccount::HasRoomFor(ByteClass who, BytePool pool, int64_t held, int64_t below) const {
  const int64_t share = ShareOf(who, limit(pool));
  if (held <= share) return true;
  // The parts of jobs that come one after the other, the whole, a half, a third, ..., are not to add up to more than
  // twice the tenant's share. Of the process each tenant has its part whatever the others hold.
  const bool is_bounded = parent_ == nullptr || held <= 2 * share;
  return HasParts() && below > 0 && below <= share / holders(pool) && is_bounded;
}

absl::Status ByteAccount::Refusal(ByteKind kind, int64_t bytes, ByteClass who) const {
  if (absl::Status fits = CheckFits(kind, bytes, who); !fits.ok()) return fits;
  const BytePool pool = PoolOf(kind);
  const int64_t share = ShareOf(who, limit(pool));
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          name_, " has ", Show(held(pool)), " of ", Describe(pool), ", and ", Show(bytes), " of ", NameOf(kind),
          " come; ", Show(share), " is the most", Describe(who), "; retry in ", absl::FormatDuration(kRetryWhenFull))),
      kRetryWhenFull);
}

bool ByteAccount::IsOver(BytePool pool) const {
  int64_t below = 0;
  for (const ByteAccount* account = this; account != nullptr; account = account->parent_.get()) {
    const int64_t held = account->held(pool);
    if (!account->HasRoomFor(ByteClass::kJob, pool, held, below)) return true;
    below = held;
  }
  return false;
}

void ByteAccount::AwaitRoom(BytePool pool, int64_t bytes, std::weak_ptr<void> owner, std::function<void()> wake) {
  ByteAccount* full = this;
  const auto at_most = [&] { return std::max<int64_t>(0, std::min(full->limit(pool) / 2, full->limit(pool) - bytes)); };
  while (full->parent_ != nullptr && full->held(pool) <= at_most()) full = full->parent_.get();
  {
    const std::lock_guard<std::mutex> lock(full->mutex_);
    full->ForgetGoneLocked();
    full->waiters_.push_back({pool, at_most(), std::move(owner), std::move(wake)});
    full->StateWakeLocked();
  }
  // Releases before this moment have woken nobody.
  full->Wake();
}

// As often as their number has doubled, so that each costs a few looks.
void ByteAccount::ForgetGoneLocked() {
  if (waiters_.size() < forget_at_) return;
  const auto is_gone = [](const Waiter& waiter) { return waiter.owner.expired(); };
  waiters_.erase(std::remove_if(waiters_.begin(), waiters_.end(), is_gone), waiters_.end());
  forget_at_ = std::max(kLeastForget, 2 * waiters_.size());
}

void ByteAccount::StateWakeLocked() {
  std::array<int64_t, kBytePools> wake_at;
  wake_at.fill(-1);
  for (const Waiter& waiter : waiters_) {
    int64_t& highest = wake_at[static_cast<size_t>(waiter.pool)];
    highest = std::max(highest, waiter.at_most);
  }
  for (size_t pool = 0; pool < kBytePools; ++pool) wake_at_[pool].store(wake_at[pool]);
}

void ByteAccount::Wake() {
  std::vector<Waiter> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto stays = [this](const Waiter& waiter) { return held(waiter.pool) > waiter.at_most; };
    const auto first = std::stable_partition(waiters_.begin(), waiters_.end(), stays);
    if (first == waiters_.end()) return;
    std::move(first, waiters_.end(), std::back_inserter(woken));
    waiters_.erase(first, waiters_.end());
    StateWakeLocked();
  }
  for (const Waiter& waiter : woken) waiter.wake();
}

void ByteAccount::CountShed(ByteKind kind) {
  for (ByteAccount* account = this; account != nullptr; account = account->parent_.get())
    account->sheds_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace farandole
