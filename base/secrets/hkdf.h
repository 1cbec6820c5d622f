#ifndef FARANDOLE_BASE_SECRETS_HKDF_H_
#define FARANDOLE_BASE_SECRETS_HKDF_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// HKDF with SHA-256 (RFC 5869): `bytes` bytes, 1 to 8,160, which follow from all three. Bytes for another `info` tell
// nothing of these.
std::string HkdfSha256(absl::string_view key, absl::string_view salt, absl::string_view info, size_t bytes);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SECRETS_HKDF_H_
