#include "web/session_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

std::string SessionTable::Open(Session session, absl::Time now) {
  if (sessions_.size() >= kMost) MakeRoom();
  std::string secret = absl::BytesToHexString(SecureRandomBytes(kSecretBytes));
  session.opened = now;
  sessions_[Sha256(secret)] = std::move(session);
  return secret;
}

void SessionTable::MakeRoom() {
  std::map<std::string, size_t> counts;
  for (const auto& [secret, session] : sessions_) ++counts[OwnerOf(session.identity)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  auto oldest = sessions_.end();
  for (auto one = sessions_.begin(); one != sessions_.end(); ++one) {
    if (OwnerOf(one->second.identity) != most->first) continue;
    if (oldest == sessions_.end() || one->second.opened < oldest->second.opened) oldest = one;
  }
  sessions_.erase(oldest);
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
