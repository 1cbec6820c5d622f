#ifndef FARANDOLE_SERVER_ADMIN_ANSWER_LEDGER_H_
#define FARANDOLE_SERVER_ADMIN_ANSWER_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// Most answers that are kept for a tenant, and bytes of their responses, of which some name thousands of ranks; the
// oldest are forgotten for a new one.
inline constexpr size_t kMaxAnswersKept = 10000;
inline constexpr size_t kMaxAnswerBytesKept = 4 << 20;

// One mutating admin call.
struct AdminCall {
  // The caller, and its key.
  std::string tenant;
  std::string idempotency_key;
  // The call's name and the SHA-256 of its request.
  std::string call;
  std::string request_sha256;
  // When it began (AnswerLedger::BeganUnixMs); 0: not known yet.
  int64_t began_unix_ms = 0;
};

// A call of `access`. Its token is part of the request, so that no caller is told the answer to another one's call.
AdminCall CallOf(const Access& access, const std::string& idempotency_key, const std::string& call,
                 const std::string& request);

// Which mutating admin calls were carried out, durably: each of them once. It owns the store's owner "admin", under
// which the rows of tenants are written as well. Owned by the coordinator; any thread.
class AnswerLedger {
 public:
  // Takes the owner over and reads the ledger. `store` outlives it. Blocks. Errors: the store's, DATA_LOSS if a row
  // cannot be parsed.
  static absl::StatusOr<std::unique_ptr<AnswerLedger>> Load(Store* store);

  // INVALID_ARGUMENT: the key is not 1 to 64 bytes.
  static absl::Status CheckKey(absl::string_view key);
  // Begins a call. true: carry it out, then Finish or Abandon it. false: it was carried out before, and ResponseTo has
  // what it was answered.
  //   INVALID_ARGUMENT  CheckKey's, or the key was used for another request
  //   UNAVAILABLE       a call with this key is being carried out; retry
  absl::StatusOr<bool> Begin(const AdminCall& call);
  // When a call that Begin has taken began, in Unix milliseconds. It is kept with the answer, so that a repeated call
  // began when the first one did; no two calls begin at the same one. 0: there is no such call.
  int64_t BeganUnixMs(const AdminCall& call) const;
  // Makes `changes` and the call's answer durable together; `done` is called on the store's thread. Errors:
  // UNAVAILABLE; the call is as if it had not begun.
  void Finish(const AdminCall& call, StoreBatch changes, std::function<void(absl::Status)> done,
              const std::string& response = "");
  // The response with which a call of this key was finished; "" if there is none.
  std::string ResponseTo(const AdminCall& call) const;
  // The call failed and changed nothing.
  void Abandon(const AdminCall& call);

  // Forgets at most `most` of the calls that were carried out before `then`: their keys may be used for other requests.
  // How many; 0 also where the store cannot write.
  size_t ForgetBefore(absl::Time then, size_t most);

  // Writes rows as the owner "admin".
  void Commit(StoreBatch batch, std::function<void(absl::Status)> done);

 private:
  using Key = std::pair<std::string, std::string>;
  struct Entry {
    v1::AnswerRecord record;
    bool is_finished = false;
  };

  struct OfTenant {
    // Of its responses, and of its calls, whether they are finished or not.
    size_t response_bytes = 0;
    size_t calls = 0;
    // Those that are finished, by when they began, and their keys.
    absl::btree_set<std::pair<int64_t, std::string>> finished;
  };

  explicit AnswerLedger(Store* store) : store_(store) {}
  static std::string RowKey(const Key& key);
  void SetFinished(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseLocked(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The tenant's oldest finished answer where it has more than are kept, in number or in bytes.
  std::optional<Key> OldestToForget(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CommitAs(uint64_t revision, StoreBatch batch, std::function<void(absl::Status)> done);

  Store* const store_;
  mutable absl::Mutex mutex_;
  absl::btree_map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<std::string, OfTenant> tenants_ ABSL_GUARDED_BY(mutex_);
  // When the latest of all calls began.
  int64_t last_began_unix_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // 0: to be acquired (anew, after a failed commit).
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_ADMIN_ANSWER_LEDGER_H_
