#include "server/admin/token_registrar.h"

#include <algorithm>
#include <future>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "server/registry/rights.h"
#include "server/registry/token_text.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

constexpr size_t kMaxLabelBytes = 128;
constexpr uint64_t kDay = 24 * 60 * 60;
constexpr uint64_t kMostDays = 90;
constexpr uint64_t kUsualDays = 30;
constexpr uint64_t kMostOverlapDays = 7;
// Of an id in a sentence.
constexpr size_t kMostShown = 64;
// Other tokens that one is rotated with, at most: they bound the walk from a token that is revoked to those that end
// with it, which all calls wait for.
constexpr int kMostRotators = 32;

absl::Status CheckSeconds(absl::string_view field, uint64_t seconds, uint64_t most_days) {
  if (seconds <= most_days * kDay) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", seconds, " s are more than ", most_days * kDay, " (", most_days, " days)"));
}

// Rows in one change, of the store's 128 in a batch; and their bytes, of its 1 MiB.
constexpr size_t kMostEndedAtOnce = 100;
constexpr size_t kMostEndedBytes = 512 << 10;

v1::TokenRecord StartToken(const std::string& text, absl::Time now) {
  v1::TokenRecord record;
  record.mutable_about()->set_id(TokenIdOf(text));
  record.mutable_about()->set_tenant(kDefaultTenant);
  record.mutable_about()->set_role(v1::ROOT);
  record.mutable_about()->set_label("start token");
  record.mutable_about()->set_is_start_token(true);
  record.mutable_about()->set_created_unix_ms(absl::ToUnixMillis(now));
  record.add_secrets()->set_sha256(Sha256(text));
  return record;
}

// RESOURCE_EXHAUSTED: so many other tokens have rotated it before.
absl::Status NoteRotation(const std::string& token_id, int64_t now_unix_ms, v1::TokenRecord* record) {
  for (v1::TokenRecord::Rotation& known : *record->mutable_rotations()) {
    if (known.token_id() != token_id) continue;
    known.set_last_unix_ms(std::max(known.last_unix_ms(), now_unix_ms));
    return absl::OkStatus();
  }
  if (record->rotations_size() >= kMostRotators) {
    return absl::ResourceExhaustedError(absl::StrCat("token ", record->about().id(), " has been rotated with ",
                                                     record->rotations_size(), " other tokens, at most ", kMostRotators,
                                                     " may be: create a new token, and revoke this one"));
  }
  v1::TokenRecord::Rotation* rotation = record->add_rotations();
  rotation->set_token_id(token_id);
  rotation->set_first_unix_ms(now_unix_ms);
  rotation->set_last_unix_ms(now_unix_ms);
  return absl::OkStatus();
}

// Those by tokens for which `is_dropped(id)` is true.
template <typename IsDropped>
void DropRotations(const IsDropped& is_dropped, v1::TokenRecord* record) {
  auto& rotations = *record->mutable_rotations();
  const auto drops = [&](const v1::TokenRecord::Rotation& one) { return is_dropped(one.token_id()); };
  rotations.erase(std::remove_if(rotations.begin(), rotations.end(), drops), rotations.end());
}

// Leaves the rotations by tokens that are kept: nobody revokes the others. So a row has at most kMostRotators of them.
void DropForgotten(const TokenTable& tokens, v1::TokenRecord* record) {
  DropRotations([&tokens](const std::string& id) { return !tokens.Has(id); }, record);
}

// A token that is rotated by a new one each day is not to come to its bound.
void DropLongExpired(const TokenTable& tokens, absl::Time now, v1::TokenRecord* record) {
  DropRotations([&](const std::string& id) { return tokens.HasLongExpired(id, now); }, record);
}

absl::Status NotKept(const std::string& id) {
  return absl::FailedPreconditionError(absl::StrCat("this call was carried out before, and token ", id,
                                                    " has another secret since, or is not kept: rotate it"));
}

}  // namespace

absl::Status TokenRegistrar::CheckLabel(absl::string_view label) {
  const bool is_printable =
      std::none_of(label.begin(), label.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); });
  if (label.size() <= kMaxLabelBytes && is_printable) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("label: \"", absl::CHexEscape(label.substr(0, kMaxLabelBytes)), "\" (",
                                                 label.size(), " bytes) is not up to ", kMaxLabelBytes,
                                                 " printable bytes"));
}

absl::Status TokenRegistrar::Load(Store* store, Tenants* tenants) {
  absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store, "token/");
  if (!rows.ok()) return rows.status();
  for (const StoreRow& row : *rows) {
    v1::TokenRecord record;
    if (!record.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a TokenRecord"));
    tenants->tokens().Put(std::move(record));
  }
  rows = ScanAndWait(store, "use/");
  if (!rows.ok()) return rows.status();
  for (const StoreRow& row : *rows) {
    v1::TokenUseRecord use;
    if (!use.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a TokenUseRecord"));
    tenants->tokens().SetUsed(row.key.substr(row.key.rfind('/') + 1), std::move(use));
  }
  return absl::OkStatus();
}

absl::Status TokenRegistrar::EnsureStartToken(const std::string& token) {
  const absl::Time now = absl::Now();
  v1::TokenRecord record = StartToken(token, now);
  const std::optional<v1::TokenRecord> known = tenants_->tokens().Find(record.about().id());
  if (known.has_value() && known->about().revoked_unix_ms() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the start token (", record.about().id(), ") was revoked: remove its file to get a new one"));
  }
  if (known.has_value() && known->about().is_start_token() && IsText(*known, token)) return absl::OkStatus();
  if (known.has_value()) {
    record.mutable_about()->set_created_unix_ms(known->about().created_unix_ms());
    *record.mutable_rotations() = known->rotations();
  }
  Change change;
  change.tokens.push_back(record);
  for (const v1::Token& other : tenants_->tokens().List(kDefaultTenant, now)) {
    if (!other.is_start_token() || other.id() == record.about().id() || other.revoked_unix_ms() != 0) continue;
    v1::TokenRecord ended = *tenants_->tokens().Find(other.id());
    ended.mutable_about()->set_revoked_unix_ms(absl::ToUnixMillis(now));
    change.tokens.push_back(std::move(ended));
  }
  for (const v1::TokenRecord& one : change.tokens) change.batch.puts.push_back(RowOf(one));
  std::promise<absl::Status> written;
  ledger_->Commit(change.batch, [&](absl::Status status) { written.set_value(std::move(status)); });
  if (absl::Status status = written.get_future().get(); !status.ok()) return status;
  for (v1::TokenRecord& one : change.tokens) tenants_->tokens().Put(std::move(one));
  return absl::OkStatus();
}

absl::Status TokenRegistrar::CheckCreate(const Access& caller, const std::string& tenant,
                                         const v1::CreateTokenRequest& request) const {
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  if (tenant != caller.tenant && caller.role != v1::ROOT)
    return absl::PermissionDeniedError(absl::StrCat(caller.Text(), " may not make tokens of tenant ", tenant));
  if (request.role() == v1::ROLE_UNSPECIFIED || !v1::Role_IsValid(request.role()))
    return absl::InvalidArgumentError(absl::StrCat("role: ", request.role(), " is none"));
  if (!MayGive(caller.role, request.role())) {
    return absl::PermissionDeniedError(
        absl::StrCat(caller.Text(), " may not make a token of the role ", RoleName(request.role())));
  }
  if (IsOfCluster(request.role()) && tenant != kDefaultTenant) {
    return absl::InvalidArgumentError(absl::StrCat("role: ", RoleName(request.role()),
                                                   " is of the cluster, and its tokens are of tenant ", kDefaultTenant,
                                                   ", not of ", tenant));
  }
  if (absl::Status status = CheckLabel(request.label()); !status.ok()) return status;
  if (absl::Status status = CheckSeconds("lifetime_seconds", request.lifetime_seconds(), kMostDays); !status.ok())
    return status;
  if (tenants_->Find(tenant).has_value()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no tenant ", tenant));
}

void TokenRegistrar::Create(const Access& caller, const v1::CreateTokenRequest& request,
                            std::function<void(absl::StatusOr<v1::CreateTokenResponse>)> done) {
  const std::string tenant = request.tenant().empty() ? caller.tenant : request.tenant();
  if (absl::Status status = CheckCreate(caller, tenant, request); !status.ok()) return done(status);
  AdminCall call = CallOf(caller, request.idempotency_key(), "CreateToken", request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) return done(is_new.status());
  call.began_unix_ms = ledger_->BeganUnixMs(call);
  v1::Token about;
  about.set_tenant(tenant);
  about.set_role(request.role());
  about.set_label(request.label());
  const uint64_t seconds = request.lifetime_seconds() == 0 ? kUsualDays * kDay : request.lifetime_seconds();
  const absl::Time now = absl::Now();
  TokenMint::Made made = mint_->Make(caller, call, std::move(about), absl::Seconds(seconds), now);
  v1::CreateTokenResponse response;
  *response.mutable_about() = made.record.about();
  if (!*is_new) {
    const std::optional<v1::TokenRecord> known = tenants_->tokens().Find(made.record.about().id());
    if (!known.has_value() || !IsText(*known, made.text)) return done(NotKept(made.record.about().id()));
    *response.mutable_about() = known->about();
    response.set_token(made.text);
    return done(response);
  }
  absl::Status status = Reserve(tenant);
  const size_t kept = tenants_->tokens().CountOf(tenant);
  // Those of the cluster are of a tenant whose own admins make tokens as well: these cannot take all of the room.
  const size_t most = IsOfCluster(request.role()) ? 2 * kMaxTokens : kMaxTokens;
  TokenTable::Room room;
  if (kept >= most) room = tenants_->tokens().RoomOf(tenant, now);
  if (status.ok() && kept >= most && room.forgotten.empty()) {
    status = absl::ResourceExhaustedError(absl::StrCat("tenant ", tenant, " has ", kept, " tokens, at most ", most,
                                                       " may be: revoke those that nobody needs"));
    Release(tenant);
  }
  if (!status.ok()) {
    ledger_->Abandon(call);
    return done(status);
  }
  Change change;
  change.tokens.push_back(made.record);
  if (kept >= most) status = MakeRoom(tenant, room, now, &change);
  if (!status.ok()) {
    for (const std::string& other : change.others) Release(other);
    Release(tenant);
    ledger_->Abandon(call);
    return done(status);
  }
  Carry(call, tenant, std::move(change), "",
        [response, text = std::move(made.text), done = std::move(done)](const absl::Status& carried) mutable {
          if (!carried.ok()) return done(carried);
          response.set_token(text);
          done(response);
        });
}

absl::Status TokenRegistrar::MakeRoom(const std::string& tenant, const TokenTable::Room& room, absl::Time now,
                                      Change* change) {
  size_t bytes = 0;
  for (const std::string& id : room.ended) {
    // The tenant has one too many until the next ones are made.
    if (change->tokens.size() > kMostEndedAtOnce || bytes > kMostEndedBytes) return absl::OkStatus();
    std::optional<v1::TokenRecord> ended = tenants_->tokens().Find(id);
    // Another tenant's may be changed, or forgotten, meanwhile.
    if (ended.has_value() && ended->about().tenant() != tenant && change->others.count(ended->about().tenant()) == 0) {
      const std::string other = ended->about().tenant();
      if (absl::Status status = Reserve(other); !status.ok()) return status;
      change->others.insert(other);
      ended = tenants_->tokens().Find(id);
    }
    if (!ended.has_value()) continue;
    ended->mutable_about()->set_revoked_unix_ms(absl::ToUnixMillis(now));
    DropForgotten(tenants_->tokens(), &*ended);
    bytes += ended->ByteSizeLong();
    change->tokens.push_back(*std::move(ended));
  }
  change->forgotten = room.forgotten;
  return absl::OkStatus();
}

absl::StatusOr<v1::TokenRecord> TokenRegistrar::FindFor(const Access& caller, const std::string& id) const {
  std::optional<v1::TokenRecord> found = tenants_->tokens().Find(id);
  if (!found.has_value() || (found->about().tenant() != caller.tenant && caller.role != v1::ROOT)) {
    return absl::NotFoundError(
        absl::StrCat("there is no token ", absl::CHexEscape(id.substr(0, kMostShown)), " of tenant ", caller.tenant));
  }
  if (MayGive(caller.role, found->about().role())) return *std::move(found);
  return absl::PermissionDeniedError(
      absl::StrCat(caller.Text(), " may not change token ", id, ", whose role is ", RoleName(found->about().role())));
}

absl::Status TokenRegistrar::KeepIfStart(const v1::TokenRecord& record, const std::string& text) const {
  return record.about().is_start_token() ? keep_start_token_(text) : absl::OkStatus();
}

absl::Status TokenRegistrar::ReplaceStart(const Access& caller, const AdminCall& call, const v1::TokenRecord& revoked,
                                          const std::vector<std::string>& others, Change* change) const {
  const absl::Time now = absl::Now();
  std::optional<v1::TokenRecord> start;
  if (revoked.about().is_start_token() && revoked.about().revoked_unix_ms() == 0) start = revoked;
  for (const std::string& id : others) {
    std::optional<v1::TokenRecord> other = tenants_->tokens().Find(id);
    if (!other.has_value() || !other->about().is_start_token()) continue;
    // In its own row, so that a copy of its file does not bring it back.
    other->mutable_about()->set_revoked_unix_ms(absl::ToUnixMillis(now));
    change->tokens.push_back(*other);
    start = std::move(other);
  }
  if (!start.has_value()) return absl::OkStatus();
  v1::Token about;
  about.set_tenant(kDefaultTenant);
  about.set_role(v1::ROOT);
  const TokenMint::Made made = mint_->Make(caller, call, about, absl::ZeroDuration(), now);
  change->tokens.push_back(StartToken(made.text, now));
  return KeepIfStart(*start, made.text);
}

void TokenRegistrar::Rotate(const Access& caller, const v1::RotateTokenRequest& request,
                            std::function<void(absl::StatusOr<v1::RotateTokenResponse>)> done) {
  absl::StatusOr<v1::TokenRecord> found = FindFor(caller, request.id());
  absl::Status status = found.status();
  if (status.ok()) status = CheckSeconds("overlap_seconds", request.overlap_seconds(), kMostOverlapDays);
  if (!status.ok()) return done(status);
  AdminCall call = CallOf(caller, request.idempotency_key(), "RotateToken", request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) return done(is_new.status());
  call.began_unix_ms = ledger_->BeganUnixMs(call);
  v1::RotateTokenResponse response;
  response.set_token(mint_->Renew(caller, call, request.id()));
  if (!*is_new) {
    if (!IsText(*found, response.token())) return done(NotKept(request.id()));
    *response.mutable_about() = found->about();
    return done(response);
  }
  const std::string tenant = found->about().tenant();
  status = Reserve(tenant);
  const bool is_reserved = status.ok();
  // As it is now that no other call changes it.
  if (is_reserved) found = FindFor(caller, request.id());
  if (is_reserved) status = found.status();
  if (status.ok()) status = tenants_->tokens().CheckStanding(request.id(), absl::Now(), /*while_unexpired=*/false);
  if (absl::IsUnauthenticated(status)) status = absl::FailedPreconditionError(status.message());
  const int64_t now = absl::ToUnixMillis(absl::Now());
  // Owners without a token cannot be revoked.
  if (status.ok() && caller.token_id != request.id() && tenants_->tokens().Has(caller.token_id)) {
    DropForgotten(tenants_->tokens(), &*found);
    if (found->rotations_size() >= kMostRotators)
      DropLongExpired(tenants_->tokens(), absl::FromUnixMillis(now), &*found);
    status = NoteRotation(caller.token_id, now, &*found);
  }
  if (status.ok()) status = KeepIfStart(*found, response.token());
  if (!status.ok()) {
    if (is_reserved) Release(tenant);
    ledger_->Abandon(call);
    return done(status);
  }
  v1::Token* about = found->mutable_about();
  v1::TokenRecord::Secret before = *found->secrets().rbegin();
  before.set_ends_unix_ms(now + static_cast<int64_t>(request.overlap_seconds()) * 1000);
  if (about->expires_unix_ms() != 0) {
    before.set_ends_unix_ms(std::min(before.ends_unix_ms(), about->expires_unix_ms()));
    const int64_t renewed_unix_ms = about->renewed_unix_ms() == 0 ? about->created_unix_ms() : about->renewed_unix_ms();
    about->set_expires_unix_ms(now + about->expires_unix_ms() - renewed_unix_ms);
  }
  about->set_renewed_unix_ms(now);
  found->clear_secrets();
  *found->add_secrets() = std::move(before);
  found->add_secrets()->set_sha256(Sha256(response.token()));
  *response.mutable_about() = *about;
  Change change;
  change.tokens.push_back(*std::move(found));
  Carry(call, tenant, std::move(change), "", [response, done = std::move(done)](const absl::Status& carried) {
    if (!carried.ok()) return done(carried);
    done(response);
  });
}

void TokenRegistrar::Revoke(const Access& caller, const v1::RevokeTokenRequest& request,
                            std::function<void(absl::StatusOr<v1::RevokeTokenResponse>)> done) {
  absl::StatusOr<v1::TokenRecord> found = FindFor(caller, request.id());
  if (!found.ok()) return done(found.status());
  AdminCall call = CallOf(caller, request.idempotency_key(), "RevokeToken", request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) return done(is_new.status());
  call.began_unix_ms = ledger_->BeganUnixMs(call);
  v1::RevokeTokenResponse response;
  if (!*is_new) {
    response.ParseFromString(ledger_->ResponseTo(call));
    return done(response);
  }
  const std::string tenant = found->about().tenant();
  absl::Status status = Reserve(tenant);
  const bool is_reserved = status.ok();
  if (is_reserved) found = FindFor(caller, request.id());
  if (is_reserved) status = found.status();
  const absl::Time now = absl::Now();
  Change change;
  std::vector<std::string> others;
  if (request.and_made_with_it())
    others = tenants_->tokens().EndingWith(request.id(), request.made_since_unix_ms(), now);
  if (status.ok()) status = ReplaceStart(caller, call, *found, others, &change);
  if (!status.ok()) {
    if (is_reserved) Release(tenant);
    ledger_->Abandon(call);
    return done(status);
  }
  const bool was_good = tenants_->tokens().CheckStanding(request.id(), now, /*while_unexpired=*/true).ok();
  response.set_ended(was_good ? 1 : 0);
  if (found->about().revoked_unix_ms() == 0) found->mutable_about()->set_revoked_unix_ms(absl::ToUnixMillis(now));
  if (request.and_made_with_it()) {
    response.set_ended(response.ended() + static_cast<uint32_t>(others.size()));
    const bool is_further = found->is_revoked_with_made() && found->made_since_unix_ms() < request.made_since_unix_ms();
    if (!is_further) found->set_made_since_unix_ms(request.made_since_unix_ms());
    found->set_is_revoked_with_made(true);
  }
  change.tokens.push_back(*std::move(found));
  const std::string kept = response.SerializeAsString();
  Carry(call, tenant, std::move(change), kept, [response, done = std::move(done)](const absl::Status& carried) {
    if (!carried.ok()) return done(carried);
    done(response);
  });
}

absl::Status TokenRegistrar::Reserve(const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  if (changing_.insert(tenant).second) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("tokens of tenant ", tenant, " are being changed by another call; retry"));
}

void TokenRegistrar::Release(const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  changing_.erase(tenant);
}

void TokenRegistrar::Carry(const AdminCall& call, const std::string& tenant, Change change, const std::string& response,
                           std::function<void(absl::Status)> done) {
  for (v1::TokenRecord& token : change.tokens) {
    DropForgotten(tenants_->tokens(), &token);
    change.batch.puts.push_back(RowOf(token));
  }
  if (!change.forgotten.empty()) {
    change.batch.deletes.push_back(TokenRowKey(tenant, change.forgotten));
    change.batch.deletes.push_back(UseRowKey(tenant, change.forgotten));
  }
  StoreBatch batch = std::move(change.batch);
  ledger_->Finish(
      call, std::move(batch),
      [this, tenant, change = std::move(change), done = std::move(done)](const absl::Status& status) {
        if (status.ok()) {
          for (const v1::TokenRecord& token : change.tokens) tenants_->tokens().Put(token);
          if (!change.forgotten.empty()) tenants_->tokens().Erase(change.forgotten);
        }
        for (const std::string& other : change.others) Release(other);
        Release(tenant);
        done(status);
      },
      response);
}

}  // namespace farandole
