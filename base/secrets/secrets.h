#ifndef FARANDOLE_BASE_SECRETS_SECRETS_H_
#define FARANDOLE_BASE_SECRETS_SECRETS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// So many bytes of the system's secure randomness. Ends the process where there is none.
std::string SecureRandomBytes(size_t count);

// Compares in a time that tells nothing of how far two texts of one length agree.
bool EqualSecrets(absl::string_view a, absl::string_view b);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SECRETS_SECRETS_H_
