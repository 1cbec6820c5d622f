#ifndef FARANDOLE_SERVER_REGISTRY_TOKEN_TABLE_H_
#define FARANDOLE_SERVER_REGISTRY_TOKEN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/registry/token_lineage.h"

namespace farandole {

// Most tokens of a tenant that are kept, ended ones included.
inline constexpr size_t kMaxTokens = 256;

// The tokens that this coordinator knows, as in their rows of the store; TokenRegistrar, which writes the rows, updates
// this table too. Owned by Tenants; thread-safe. All times are of the wall clock.
class TokenTable {
 public:
  // Takes a token in, or its new record.
  void Put(v1::TokenRecord record);
  void Erase(const std::string& id);
  std::optional<v1::TokenRecord> Find(absl::string_view id) const;
  bool Has(absl::string_view id) const;

  // The token that `text` is. Compares its hash in constant time with those that are good, and notes its use.
  // UNAUTHENTICATED: there is none, or it has ended (the sentence says how, to those who have its text).
  absl::StatusOr<v1::Token> Authenticate(absl::string_view text, absl::Time now);

  // OK, or UNAUTHENTICATED: nothing that hangs on the token may go on, since it, or one that it was made or rotated
  // with, was revoked; `while_unexpired`: or since it has expired.
  absl::Status CheckStanding(absl::string_view id, absl::Time now, bool while_unexpired) const;
  // The same for what hangs on the token's run or launch, which goes on when it has expired; notes that there is such.
  absl::Status CheckRun(absl::string_view id, absl::Time now);

  // A tenant's tokens, by time; with what is known of each now. Holds the lock, which all that authenticate need, while
  // it takes pointers to the records only.
  std::vector<v1::Token> List(absl::string_view tenant, absl::Time now) const;
  // The ids of the other tokens that are good, and that would end if `id` were revoked with those that were made or
  // rotated with it since `since`. Takes time in proportion to the links between them, some milliseconds for a tenant
  // with all that it may have, and gives the lock, which all that authenticate need, back between few of them: of what
  // changes meanwhile, it may find a part.
  std::vector<std::string> EndingWith(const std::string& id, int64_t since_unix_ms, absl::Time now) const;
  // Whether there is any.
  bool EndsAnyWith(const std::string& id, int64_t since_unix_ms, absl::Time now) const;
  // Whether it expired 30 days ago, and has had no run for as long.
  bool HasLongExpired(absl::string_view id, absl::Time now) const;
  // How many of the tenant's are kept; how many of these are good. Both without a look at each.
  size_t CountOf(absl::string_view tenant) const;
  size_t CountGood(absl::string_view tenant, absl::Time now) const;

  struct Room {
    // The one that may be forgotten for a new one: that was revoked, or expired 30 days ago and has had no run for as
    // long. "": none.
    std::string forgotten = {};
    // Tokens that have ended by way of that one: their own rows are to say so from then on.
    std::vector<std::string> ended = {};
  };
  // First of those go that no other was made or rotated with, then those of which all others have ended too, then those
  // that have only rotated others: whoever revokes them later does not find these. One that others were made with stays
  // while they are good.
  Room RoomOf(absl::string_view tenant, absl::Time now) const;

  // Grows with each change.
  uint64_t revision() const;

  // A token's last use.
  struct Use {
    std::string tenant;
    std::string id;
    v1::TokenUseRecord record;
  };
  // Takes a use as the store has it.
  void SetUsed(const std::string& id, v1::TokenUseRecord use);
  // The uses that are a minute later than the ones that were told before.
  std::vector<Use> TakeUses();

 private:
  struct Entry {
    // Never null. shared: by lists, which are made of it without the lock.
    std::shared_ptr<const v1::TokenRecord> record;
    v1::TokenUseRecord use = {};
    v1::TokenUseRecord told_use = {};
    // Set: since this moment its holder may have been the one of the token `taken_by`, which was revoked with all that
    // was made or rotated with it. The token `taken_by` is taken itself, too.
    std::optional<int64_t> taken_unix_ms = {};
    std::string taken_by = {};
  };

  // A tenant's tokens.
  struct Kept {
    absl::btree_set<std::string> ids;
    // When those expire that were not revoked, rising; the largest number: one that does not.
    std::vector<int64_t> good_until_unix_ms;
  };

  // A token of a walk: whether it is good, whether it and all that is reached from it were taken as early, and
  // otherwise the first of its links behind one.
  struct Step {
    bool is_good = false;
    bool is_taken = false;
    std::vector<std::pair<std::string, TokenLineage::Link>> links = {};
  };

  std::vector<std::string> FindEndingWith(const std::string& id, int64_t since_unix_ms, absl::Time now,
                                          size_t most) const ABSL_LOCKS_EXCLUDED(mutex_);
  Step StepOf(const TokenLineage::Walk& walk, const std::string& behind, absl::Time now) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  const Kept& KeptOf(absl::string_view tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the entry into its tenant's good_until_unix_ms, or out of it, unless it was revoked: before and after all
  // that changes it.
  void CountIn(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountOut(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The token was used.
  void NoteUse(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether others were made with it that are good, or have expired only.
  bool HasMadeGoodOnes(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasLongExpired(const Entry& entry, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it was revoked, or has long expired.
  bool IsOver(const Entry& entry, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have ended since this one was taken and they were made or rotated with it, and that no row of their own
  // says to be revoked.
  std::vector<std::string> EndedByWayOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const std::string& id, int64_t since_unix_ms, const std::string& by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The record of the token by whose revocation alone this one has ended; null: there is none.
  std::shared_ptr<const v1::TokenRecord> TakerOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why the token is not good any more; "": it is.
  std::string EndOf(const Entry& entry, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, as far as it was revoked.
  std::string RevocationOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether RevocationOf says how.
  static bool IsRevoked(const Entry& entry);
  // Whether EndOf is "".
  static bool IsGood(const Entry& entry, absl::Time now);

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  absl::btree_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  // By name; of those that have tokens.
  absl::btree_map<std::string, Kept> tenants_ ABSL_GUARDED_BY(mutex_);
  TokenLineage lineage_ ABSL_GUARDED_BY(mutex_);
  // Ids of tokens with a use that TakeUses is to tell.
  absl::btree_set<std::string> untold_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_TOKEN_TABLE_H_
