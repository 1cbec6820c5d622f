#ifndef FARANDOLE_SERVER_ADMIN_TOKEN_REGISTRAR_H_
#define FARANDOLE_SERVER_ADMIN_TOKEN_REGISTRAR_H_

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "farandole/v1/access.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/token_mint.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// Makes, rotates and revokes tokens, durable before they count. Owned by the coordinator; any thread; borrows objects
// that outlive it. The calls are those of access.proto, by a caller who may manage tokens; `done` is called once, on
// any thread.
class TokenRegistrar {
 public:
  // Writes a start token where its owner finds it. FAILED_PRECONDITION: there is no such place.
  using KeepStartToken = std::function<absl::Status(const std::string& token)>;
  TokenRegistrar(AnswerLedger* ledger, Tenants* tenants, const TokenMint* mint, KeepStartToken keep_start_token)
      : ledger_(ledger), tenants_(tenants), mint_(mint), keep_start_token_(std::move(keep_start_token)) {}

  // Reads the tokens' rows. Blocks. Errors: the store's, DATA_LOSS if a row cannot be parsed.
  static absl::Status Load(Store* store, Tenants* tenants);
  // Makes `token` the one start token, with the role root; one before it ends. Blocks. FAILED_PRECONDITION: it was
  // revoked. Others: the store's.
  absl::Status EnsureStartToken(const std::string& token);

  // INVALID_ARGUMENT: the label of a token is not up to 128 printable bytes.
  static absl::Status CheckLabel(absl::string_view label);
  // The token that a call means. NOT_FOUND: the caller's tenant has none of this id; PERMISSION_DENIED: its role has
  // more rights than the caller's.
  absl::StatusOr<v1::TokenRecord> FindFor(const Access& caller, const std::string& id) const;

  void Create(const Access& caller, const v1::CreateTokenRequest& request,
              std::function<void(absl::StatusOr<v1::CreateTokenResponse>)> done);
  void Rotate(const Access& caller, const v1::RotateTokenRequest& request,
              std::function<void(absl::StatusOr<v1::RotateTokenResponse>)> done);
  void Revoke(const Access& caller, const v1::RevokeTokenRequest& request,
              std::function<void(absl::StatusOr<v1::RevokeTokenResponse>)> done);

 private:
  // The rows that a call changes, and the token that is forgotten for a new one.
  struct Change {
    StoreBatch batch;
    std::vector<v1::TokenRecord> tokens;
    std::string forgotten;
    // Further tenants of which tokens change; they are reserved until it is carried out.
    std::set<std::string> others;
  };

  absl::Status CheckCreate(const Access& caller, const std::string& tenant,
                           const v1::CreateTokenRequest& request) const;
  // The start token's new text is written before the store has it: a start that finds it makes it good.
  absl::Status KeepIfStart(const v1::TokenRecord& record, const std::string& text) const;
  // Has the change forget a token of the tenant for a new one, once those that have ended by way of it say so in their
  // own rows. UNAVAILABLE: tokens of another tenant, which has one of these, are being changed.
  absl::Status MakeRoom(const std::string& tenant, const TokenTable::Room& room, absl::Time now, Change* change);
  // Puts a new start token in the place of the present one, where that is `revoked` or one of the `others` that end.
  absl::Status ReplaceStart(const Access& caller, const AdminCall& call, const v1::TokenRecord& revoked,
                            const std::vector<std::string>& others, Change* change) const;
  // One change of a tenant's tokens at a time.
  absl::Status Reserve(const std::string& tenant);
  void Release(const std::string& tenant);
  // Makes the change and the call's answer durable, then known.
  void Carry(const AdminCall& call, const std::string& tenant, Change change, const std::string& response,
             std::function<void(absl::Status)> done);

  AnswerLedger* const ledger_;
  Tenants* const tenants_;
  const TokenMint* const mint_;
  const KeepStartToken keep_start_token_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> changing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_ADMIN_TOKEN_REGISTRAR_H_
