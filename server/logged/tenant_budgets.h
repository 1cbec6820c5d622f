#ifndef FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_
#define FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace farandole {

// The bytes that each tenant's jobs in memory may take for what their programs log. Thread-safe.
class TenantBudgets {
 public:
  explicit TenantBudgets(int64_t bytes) : bytes_(bytes) {}
  TenantBudgets(const TenantBudgets&) = delete;
  TenantBudgets& operator=(const TenantBudgets&) = delete;

  // False: so many are not left, and none are taken.
  bool Take(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    if (taken_[tenant] + bytes > bytes_) return false;
    taken_[tenant] += bytes;
    return true;
  }
  // Counts what is kept already, whether there is room or not.
  void Count(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    taken_[tenant] += bytes;
  }
  void Return(const std::string& tenant, int64_t bytes) {
    const absl::MutexLock lock(&mutex_);
    if ((taken_[tenant] -= bytes) <= 0) taken_.erase(tenant);
  }
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, int64_t> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOGGED_TENANT_BUDGETS_H_
