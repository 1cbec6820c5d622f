#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "server/bytes/byte_account.h"

namespace farandole {

// The bytes that the measurements of all jobs of a coordinator may take. Thread-safe; one job's part of it is for one
// thread.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : left_(bytes) {}
  // One job's part of `whole`, within the room that its account has for observers.
  MemoryBudget(std::shared_ptr<MemoryBudget> whole, std::shared_ptr<ByteAccount> account, ByteKind kind)
      : whole_(std::move(whole)), charge_(std::move(account), kind), left_(0) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False: so many are not left, and none are taken.
  bool Take(int64_t bytes) {
    if (whole_ != nullptr) {
      if (!charge_.Grow(bytes, ByteClass::kObserver).ok()) return false;
      if (whole_->Take(bytes)) return true;
      charge_.Resize(charge_.bytes() - bytes);
      return false;
    }
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_.fetch_add(bytes);
    return false;
  }
  void Return(int64_t bytes) {
    if (whole_ == nullptr) return void(left_.fetch_add(bytes));
    whole_->Return(bytes);
    charge_.Resize(charge_.bytes() - bytes);
  }
  int64_t left() const { return whole_ == nullptr ? left_.load() : whole_->left(); }

 private:
  // Shared by the parts of all jobs; null: this is the whole.
  const std::shared_ptr<MemoryBudget> whole_;
  ByteCharge charge_;
  std::atomic<int64_t> left_;
};

// Bytes that one object has taken from a budget. It returns them at its end.
class MemoryShare {
 public:
  // `budget` outlives this object; null: all may be taken.
  explicit MemoryShare(MemoryBudget* budget) : budget_(budget) {}
  ~MemoryShare() { Return(taken_); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  // False: so many are not left, and none are taken.
  bool Take(int64_t bytes) {
    if (budget_ != nullptr && !budget_->Take(bytes)) return false;
    taken_ += bytes;
    return true;
  }
  // Gives back some of the bytes that were taken.
  void Return(int64_t bytes) {
    if (budget_ != nullptr) budget_->Return(bytes);
    taken_ -= bytes;
  }

 private:
  MemoryBudget* const budget_;
  int64_t taken_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEMORY_BUDGET_H_
