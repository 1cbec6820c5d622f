#include "web/session_table.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

std::string SessionTable::Open(const std::string& token, absl::Time now) {
  const auto is_older = [](const auto& a, const auto& b) { return a.second.opened < b.second.opened; };
  if (sessions_.size() >= kMost) sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(), is_older));
  std::string secret = absl::BytesToHexString(SecureRandomBytes(kSecretBytes));
  sessions_[Sha256(secret)] = {token, now};
  return secret;
}

std::optional<std::string> SessionTable::Find(const std::string& secret, absl::Time now) {
  const auto found = sessions_.find(Sha256(secret));
  if (found == sessions_.end()) return std::nullopt;
  if (found->second.opened + kLifetime > now) return found->second.token;
  sessions_.erase(found);
  return std::nullopt;
}

void SessionTable::Close(const std::string& secret) { sessions_.erase(Sha256(secret)); }

}  // namespace farandole
