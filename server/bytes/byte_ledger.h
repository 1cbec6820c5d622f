#ifndef FARANDOLE_SERVER_BYTES_BYTE_LEDGER_H_
#define FARANDOLE_SERVER_BYTES_BYTE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/bytes/byte_account.h"
#include "server/bytes/pace.h"

namespace farandole {

// The most bytes that a tenant's jobs may have in memory, and all tenants' together. One job may have half of its
// tenant's, one stream a quarter. And how fast a tenant's messages are read.
struct ByteLimits {
  // Messages on their way to the jobs; as much again may be on its way to workers, and in large messages of calls, and
  // half as much in answers to those who look.
  int64_t tenant_queued = 64 << 20;
  // All that jobs keep, and twice as much for their catalogues of checkpoints: 64 jobs of a tenant have these full.
  int64_t tenant_kept = 256 << 20;
  int64_t queued = 512 << 20;
  int64_t kept = int64_t{2} << 30;
  // Bytes of a tenant's messages that are read in a second, after a burst (kPaceBurstSeconds).
  int64_t tenant_rate = 16 << 20;
};

// A tenant that was quiet for so long may send at once what it would have sent since: the names of a large model, say.
// And whatever it sends, it owes no more than that: it has paid so long after the last.
inline constexpr int64_t kPaceBurstSeconds = 32;
// A call that looks takes so much before it is answered, and then what its answer has in place of it: many that come at
// once are not all answered for the price of the first.
inline constexpr int64_t kPaceReserveBytes = 256 << 10;
// Each message and each call costs so much more than its bytes.
inline constexpr int64_t kPaceMessageBytes = 4 << 10;
// Accounts of a job, and of a stream, have such a part of their tenant's.
inline constexpr int64_t kJobDivisor = 2;
inline constexpr int64_t kStreamDivisor = 4;
// The message of a call that is larger in memory is read when its tenant has paid for those before it. One that is
// larger on the wire is weighed on LargeReader's thread, and few calls may have one (CallBound).
inline constexpr int64_t kLargeCallBytes = 64 << 10;
// The message of a stream that is larger in memory is read so, too. A large job's heartbeats are smaller, so that no
// sign of life waits.
inline constexpr int64_t kLargeStreamedBytes = 1 << 20;

// The bytes that the coordinator holds on behalf of each tenant and job (decision 30). Accounts are made when they are
// asked for first. Those of tenants stay, since their number has a bound; those of jobs go with their last charge.
// Owned by the coordinator; thread-safe. Accounts may outlive it.
class ByteLedger {
 public:
  explicit ByteLedger(const ByteLimits& limits = {});
  ByteLedger(const ByteLedger&) = delete;
  ByteLedger& operator=(const ByteLedger&) = delete;

  std::shared_ptr<ByteAccount> Tenant(const std::string& tenant);
  std::shared_ptr<ByteAccount> Job(const std::string& tenant, const std::string& job);
  // A new account for one stream of the job.
  std::shared_ptr<ByteAccount> Stream(const std::string& tenant, const std::string& job);

  // How fast the tenant's messages are read: those of streams, and its calls.
  std::shared_ptr<Pace> PaceOf(const std::string& tenant);
  // How fast messages of calls are read that are larger than kLargeCallBytes, and those of streams that are larger than
  // kLargeStreamedBytes: each at the same rate. They have buckets of their own, so that they do not wait for the many
  // small messages of streams, and no hello for calls.
  std::shared_ptr<Pace> LargeCallsOf(const std::string& tenant);
  std::shared_ptr<Pace> LargeStreamedOf(const std::string& tenant);

  // How fast the tenant is answered where it looks: at the same rate. It has a bucket of its own, so that no reader
  // slows what workers send.
  std::shared_ptr<Pace> LooksOf(const std::string& tenant);
  // How fast rows of its ended jobs are read for its calls: at the same rate. It has a bucket of its own, so that one
  // large job keeps nobody from all other calls.
  std::shared_ptr<Pace> ReadsOf(const std::string& tenant);

  int64_t tenant_rate() const { return tenant_rate_; }

  const ByteAccount& process() const { return *process_; }
  // Calls `look` with each tenant that had bytes since the start, by name; `look` must not call the ledger.
  void ForEachTenant(const std::function<void(const std::string&, const ByteAccount&)>& look) const;
  // Calls `look` with each tenant that has sent something, by name; `look` must not call the ledger.
  void ForEachPace(const std::function<void(const std::string&, const Pace&)>& look) const;
  // Accounts of jobs that are kept.
  size_t jobs() const;

 private:
  static constexpr size_t kLeastSweep = 1024;

  // Each is null until it is asked for.
  struct OfTenant {
    std::shared_ptr<ByteAccount> account;
    std::shared_ptr<Pace> pace;
    std::shared_ptr<Pace> large_calls;
    std::shared_ptr<Pace> large_streamed;
    std::shared_ptr<Pace> looks;
    std::shared_ptr<Pace> reads;
  };

  std::shared_ptr<ByteAccount> TenantLocked(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Pace> PaceLocked(std::shared_ptr<Pace>* pace, int64_t most_owed_seconds = kPaceBurstSeconds) const;

  const ByteAccount::Limits tenant_limits_;
  const int64_t tenant_rate_;
  const std::shared_ptr<ByteAccount> process_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  std::map<std::string, OfTenant> tenants_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::weak_ptr<ByteAccount>> jobs_ ABSL_GUARDED_BY(mutex_);
  // With so many jobs, those that have gone are forgotten.
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = kLeastSweep;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_BYTE_LEDGER_H_
