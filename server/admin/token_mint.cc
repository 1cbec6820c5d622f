#include "server/admin/token_mint.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "server/registry/token_text.h"

namespace farandole {
namespace {

constexpr size_t kIdBytes = 8;

}  // namespace

std::string TokenMint::Draw(const Access& caller, const AdminCall& call, const std::string& what) const {
  return HmacSha256(key_, absl::StrCat(what, "/", caller.token_id, "/", call.tenant, "/", call.call, "/",
                                       absl::BytesToHexString(call.request_sha256), "/", call.began_unix_ms, "/",
                                       call.idempotency_key));
}

TokenMint::Made TokenMint::Make(const Access& caller, const AdminCall& call, v1::Token about, absl::Duration lifetime,
                                absl::Time now) const {
  const std::string id = absl::BytesToHexString(Draw(caller, call, "id").substr(0, kIdBytes));
  about.set_id(id);
  about.set_created_unix_ms(absl::ToUnixMillis(now));
  if (lifetime > absl::ZeroDuration()) about.set_expires_unix_ms(absl::ToUnixMillis(now + lifetime));
  about.set_made_with(caller.token_id);
  Made made;
  made.text = Renew(caller, call, id);
  made.record.add_secrets()->set_sha256(Sha256(made.text));
  *made.record.mutable_about() = std::move(about);
  return made;
}

std::string TokenMint::Renew(const Access& caller, const AdminCall& call, const std::string& id) const {
  return TokenText(id, Draw(caller, call, absl::StrCat("secret/", id)));
}

bool IsText(const v1::TokenRecord& record, const std::string& text) {
  return record.secrets_size() > 0 && record.secrets().rbegin()->sha256() == Sha256(text);
}

StoreRow RowOf(const v1::TokenRecord& record) {
  return {TokenRowKey(record.about().tenant(), record.about().id()), record.SerializeAsString()};
}

std::string TokenRowKey(const std::string& tenant, const std::string& id) {
  return absl::StrCat("token/", tenant, "/", id);
}

std::string UseRowKey(const std::string& tenant, const std::string& id) {
  return absl::StrCat("use/", tenant, "/", id);
}

}  // namespace farandole
