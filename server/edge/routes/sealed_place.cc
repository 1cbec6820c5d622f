#include "server/edge/routes/sealed_place.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/secrets/hkdf.h"
#include "base/secrets/secrets.h"

namespace farandole {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kSaltBytes = 16;
constexpr size_t kPlaceBytes = 48;
constexpr size_t kMarkBytes = 16;

// Of those with other bytes by a pad that is used once.
std::string Mask(absl::string_view key, absl::string_view salt, std::string bytes) {
  const std::string pad = HkdfSha256(key, salt, "the pad of a place", bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ pad[i]);
  return bytes;
}

}  // namespace

PlaceSeal::PlaceSeal() : key_(SecureRandomBytes(kKeyBytes)) {}

std::string PlaceSeal::Mark(absl::string_view salt, absl::string_view hidden) const {
  return HkdfSha256(key_, absl::StrCat(salt, hidden), "the mark of a place", kMarkBytes);
}

std::string PlaceSeal::Seal(absl::string_view place) const {
  if (place.empty()) return "";
  FD_CHECK(place.size() <= kPlaceBytes) << place.size() << " bytes of a place";
  const std::string salt = SecureRandomBytes(kSaltBytes);
  std::string padded(place);
  padded.resize(kPlaceBytes);
  const std::string hidden = Mask(key_, salt, std::move(padded));
  return absl::WebSafeBase64Escape(absl::StrCat(salt, hidden, Mark(salt, hidden)));
}

absl::StatusOr<std::string> PlaceSeal::Open(absl::string_view sealed) const {
  if (sealed.empty()) return "";
  std::string bytes;
  if (absl::WebSafeBase64Unescape(sealed, &bytes) && bytes.size() == kSaltBytes + kPlaceBytes + kMarkBytes) {
    const std::string salt = bytes.substr(0, kSaltBytes), hidden = bytes.substr(kSaltBytes, kPlaceBytes);
    if (EqualSecrets(bytes.substr(kSaltBytes + kPlaceBytes), Mark(salt, hidden))) {
      const std::string place = Mask(key_, salt, hidden);
      return place.substr(0, place.find('\0'));
    }
  }
  return absl::InvalidArgumentError("this is no place that the coordinator has told since it was started");
}

}  // namespace farandole
