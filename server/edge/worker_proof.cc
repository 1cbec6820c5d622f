#include "server/edge/worker_proof.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace farandole {
namespace {

// As many as people see of an incarnation.
constexpr size_t kShownDigits = 8;

}  // namespace

absl::Status CheckProof(absl::string_view incarnation, absl::string_view secret) {
  const std::string shown = absl::CHexEscape(incarnation.substr(0, kShownDigits));
  if (secret.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", shown, " sends no secret that proves its incarnation: its Farandole is older than the ",
                     "coordinator's"));
  }
  if (secret.size() == kWorkerSecretBytes && IncarnationOfSecret(secret) == incarnation) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the secret that came with it (", secret.size(), " bytes) is not that of worker ", shown));
}

}  // namespace farandole
