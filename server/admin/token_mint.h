#ifndef FARANDOLE_SERVER_ADMIN_TOKEN_MINT_H_
#define FARANDOLE_SERVER_ADMIN_TOKEN_MINT_H_

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/registry/tenants.h"

namespace farandole {

inline constexpr char kDefaultTenant[] = "default";

// Makes the tokens of calls. A token follows from a key of the coordinator, the caller, and the call with its
// idempotency key and the time when it began, so that a repeated call gives the same token although only its hash is
// kept, and no holder of a token can find another. Where the call's answer is forgotten, the same call begins anew, and
// gives another token: one that was revoked does not come back. Any thread.
class TokenMint {
 public:
  // `key`: at least 32 random bytes.
  explicit TokenMint(std::string key) : key_(std::move(key)) {}

  struct Made {
    std::string text;
    v1::TokenRecord record;
  };
  // A new token; `about` says its tenant, role and label. `lifetime`: zero: it does not expire.
  Made Make(const Access& caller, const AdminCall& call, v1::Token about, absl::Duration lifetime,
            absl::Time now) const;
  // A new text for the token `id`.
  std::string Renew(const Access& caller, const AdminCall& call, const std::string& id) const;

 private:
  std::string Draw(const Access& caller, const AdminCall& call, const std::string& what) const;

  const std::string key_;
};

// Whether the token is `text` now.
bool IsText(const v1::TokenRecord& record, const std::string& text);
// The row of a token.
StoreRow RowOf(const v1::TokenRecord& record);
std::string TokenRowKey(const std::string& tenant, const std::string& id);
// The row of its last use.
std::string UseRowKey(const std::string& tenant, const std::string& id);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_ADMIN_TOKEN_MINT_H_
