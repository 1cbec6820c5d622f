#ifndef FARANDOLE_SERVER_BYTES_BYTE_ACCOUNT_H_
#define FARANDOLE_SERVER_BYTES_BYTE_ACCOUNT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/bytes/byte_kind.h"

namespace farandole {

class ByteAccount;

// Bytes that are charged to an account, until this goes. One thread at a time.
class ByteCharge {
 public:
  ByteCharge() = default;
  // Holds no bytes yet.
  ByteCharge(std::shared_ptr<ByteAccount> account, ByteKind kind) : account_(std::move(account)), kind_(kind) {}
  ByteCharge(ByteCharge&& other) noexcept { *this = std::move(other); }
  ByteCharge& operator=(ByteCharge&& other) noexcept;
  ~ByteCharge() { Release(); }

  int64_t bytes() const { return bytes_; }
  // Null: nothing is ever charged.
  const ByteAccount* account() const { return account_.get(); }
  // Charges so many more, as ByteAccount::Take; no account: OK.
  absl::Status Grow(int64_t bytes, ByteClass who);
  // Charges so many instead, whether there is room or not.
  void Resize(int64_t bytes);
  void Release() { Resize(0); }

 private:
  // Shared by all charges to it.
  std::shared_ptr<ByteAccount> account_;
  ByteKind kind_ = ByteKind::kEvents;
  int64_t bytes_ = 0;
};

// The bytes of one stream, job or tenant, or of the process: a leaf's bytes count in all accounts above it. A charge
// and its release cost a few atomic additions for each of these (at most four). Thread-safe; no lock but for those who
// wait for room. Shared by its charges and by the accounts below it.
class ByteAccount : public std::enable_shared_from_this<ByteAccount> {
 public:
  using Limits = std::array<int64_t, kBytePools>;

  // `name`: for people, "tenant vision". `parent`: null for the process.
  ByteAccount(std::string name, Limits limits, std::shared_ptr<ByteAccount> parent);
  ByteAccount(const ByteAccount&) = delete;
  ByteAccount& operator=(const ByteAccount&) = delete;

  // Charges the bytes, if there is room for `who` in this account and in those above it. A full account of the process
  // has room for a tenant that holds no more than the limit divided by the number of tenants that hold something; so
  // has that of a tenant for its jobs. Jobs may so hold twice their tenant's limit; tenants that come one after the
  // other, the process's limit, a half, a third of it, and so on.
  //   RESOURCE_EXHAUSTED  there is not: whose bytes, how many, the limit, and when to try again (RetryDelayOf).
  //                       An error without that time is final: the bytes are more than the limit
  absl::Status Take(ByteKind kind, int64_t bytes, ByteClass who, ByteCharge* charge);
  // Take's final error, if so many bytes are more than the limit of this account over `divisor`. Charges nothing.
  absl::Status CheckFits(ByteKind kind, int64_t bytes, ByteClass who, int64_t divisor = 1) const;
  // Charges them whether there is room or not: for what cannot be refused, and makes others be refused.
  ByteCharge Add(ByteKind kind, int64_t bytes);

  // An account here or above holds more in this pool than it may.
  bool IsOver(BytePool pool) const;
  // Calls `wake` once, on any thread, when this account and those above it have room for the bytes in the pool and half
  // of it is free; perhaps at once. `wake` must not block, and takes no lock that is held while a charge is released.
  // Forgotten when `owner` is gone.
  void AwaitRoom(BytePool pool, int64_t bytes, std::weak_ptr<void> owner, std::function<void()> wake);
  // Counts that something was refused, left out or ended for want of room.
  void CountShed(ByteKind kind);

  const std::string& name() const { return name_; }
  int64_t held(ByteKind kind) const { return held_by_kind_[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }
  int64_t held(BytePool pool) const { return held_[static_cast<size_t>(pool)].load(); }
  int64_t limit(BytePool pool) const { return limits_[static_cast<size_t>(pool)]; }
  uint64_t sheds(ByteKind kind) const { return sheds_[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }

 private:
  friend class ByteCharge;

  static constexpr size_t kLeastForget = 64;

  struct Waiter {
    BytePool pool;
    // Called when no more than so many are held.
    int64_t at_most;
    std::weak_ptr<void> owner;
    std::function<void()> wake;
  };

  // OK, and the bytes are counted; or an error.
  absl::Status Count(ByteKind kind, int64_t bytes, ByteClass who);
  // For all accounts from here on; `bytes` may be negative.
  void Change(ByteKind kind, int64_t bytes);
  // For this account alone. Returns the new sum.
  int64_t ChangeHere(ByteKind kind, int64_t bytes);
  // `held` with what is asked for; `below`: held by the account below.
  bool HasRoomFor(ByteClass who, BytePool pool, int64_t held, int64_t below) const;
  absl::Status Refusal(ByteKind kind, int64_t bytes, ByteClass who) const;
  // The process's has a part for each tenant, and a tenant's for each of its jobs.
  bool HasParts() const { return parent_ == nullptr || parent_->parent_ == nullptr; }
  int64_t holders(BytePool pool) const { return std::max<int64_t>(1, holders_[static_cast<size_t>(pool)].load()); }
  void ForgetGoneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StateWakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const std::string name_;
  const Limits limits_;
  const std::shared_ptr<ByteAccount> parent_;
  std::array<std::atomic<int64_t>, kBytePools> held_ = {};
  std::array<std::atomic<int64_t>, kByteKinds> held_by_kind_ = {};
  std::array<std::atomic<uint64_t>, kByteKinds> sheds_ = {};
  // Accounts directly below that hold something, by pool.
  std::array<std::atomic<int64_t>, kBytePools> holders_ = {};
  // The most that may be held in a pool for one of the waiters to be called; -1: none waits.
  std::array<std::atomic<int64_t>, kBytePools> wake_at_ = {};
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = kLeastForget;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_BYTE_ACCOUNT_H_
