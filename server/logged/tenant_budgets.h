#ifndef FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_
#define FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/bytes/byte_ledger.h"

namespace farandole {

// The bytes that each tenant's jobs in memory may take for what their programs log. Thread-safe.
class TenantBudgets {
 public:
  // `ledger` shows what they take, and may be null; it outlives this.
  explicit TenantBudgets(int64_t bytes, ByteLedger* ledger = nullptr) : bytes_(bytes), ledger_(ledger) {}
  TenantBudgets(const TenantBudgets&) = delete;
  TenantBudgets& operator=(const TenantBudgets&) = delete;

  // False: so many are not left, and none are taken.
  bool Take(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    const auto taken = taken_.find(tenant);
    if ((taken == taken_.end() ? 0 : taken->second.bytes) + bytes > bytes_) return false;
    Add(tenant, bytes);
    return true;
  }
  // Counts what is kept already, whether there is room or not.
  void Count(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    Add(tenant, bytes);
  }
  void Return(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    Add(tenant, -bytes);
  }
  int64_t bytes() const { return bytes_; }

 private:
  struct Taken {
    int64_t bytes = 0;
    ByteCharge charge;
  };

  void Add(const std::string& tenant, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [taken, is_new] = taken_.try_emplace(tenant);
    if (is_new && ledger_ != nullptr) taken->second.charge = ByteCharge(ledger_->Tenant(tenant), ByteKind::kLogged);
    taken->second.bytes += bytes;
    taken->second.charge.Resize(taken->second.bytes);
    if (taken->second.bytes <= 0) taken_.erase(taken);
  }

  const int64_t bytes_;
  ByteLedger* const ledger_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Taken> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_
