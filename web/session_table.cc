#include "web/session_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

std::string SessionTable::Open(Session session, absl::Time now) {
  const auto is_older = [](const auto& a, const auto& b) { return a.second.opened < b.second.opened; };
  if (sessions_.size() >= kMost) sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(), is_older));
  std::string secret = absl::BytesToHexString(SecureRandomBytes(kSecretBytes));
  session.opened = now;
  sessions_[Sha256(secret)] = std::move(session);
  return secret;
}

std::optional<SessionTable::Session> SessionTable::Find(const std::string& secret, absl::Time now) {
  const auto found = sessions_.find(Sha256(secret));
  if (found == sessions_.end()) return std::nullopt;
  if (found->second.opened + found->second.lifetime > now) return found->second;
  sessions_.erase(found);
  return std::nullopt;
}

void SessionTable::Close(const std::string& secret) { sessions_.erase(Sha256(secret)); }

}  // namespace farandole
