// Bytes of a stranger in the place of a peer's claim.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "worker/transport/tcp/peer_proof.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::optional<farandole::PeerClaim> claim = farandole::DecodePeerClaim(bytes);
  if (claim.has_value()) FD_CHECK(farandole::EncodePeerClaim(*claim) == bytes);
  // The MAC cannot be found without the secret.
  const farandole::PeerMac mac =
      farandole::PeerMacOf("secret", farandole::PeerSide::kConnector, {}, claim.value_or(farandole::PeerClaim()));
  FD_CHECK(!farandole::IsPeerMac(mac, bytes));
  return 0;
}
