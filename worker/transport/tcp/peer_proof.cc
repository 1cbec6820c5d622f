#include "worker/transport/tcp/peer_proof.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>

#include "base/secrets/hkdf.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr uint32_t kMagic = 0x31504446;  // "FDP1"
constexpr absl::string_view kLabel = "farandole peer 1";
constexpr absl::string_view kRecordsLabel = "farandole records 1";

void Append(std::string* bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint64_t Take(absl::string_view* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>((*bytes)[i])) << (8 * i);
  bytes->remove_prefix(count);
  return value;
}

}  // namespace

bool FillPeerNonce(PeerNonce* nonce) { return RAND_bytes(nonce->data(), static_cast<int>(nonce->size())) == 1; }

std::string EncodePeerClaim(const PeerClaim& claim) {
  std::string bytes;
  bytes.reserve(kPeerClaimBytes);
  Append(&bytes, kMagic, 4);
  Append(&bytes, claim.epoch, 8);
  Append(&bytes, claim.from, 4);
  Append(&bytes, claim.to, 4);
  Append(&bytes, claim.purpose, 1);
  Append(&bytes, claim.encrypts ? 1 : 0, 3);
  bytes.append(claim.nonce.begin(), claim.nonce.end());
  return bytes;
}

std::optional<PeerClaim> DecodePeerClaim(absl::string_view bytes) {
  if (bytes.size() != kPeerClaimBytes || Take(&bytes, 4) != kMagic) return std::nullopt;
  PeerClaim claim;
  claim.epoch = Take(&bytes, 8);
  claim.from = static_cast<uint32_t>(Take(&bytes, 4));
  claim.to = static_cast<uint32_t>(Take(&bytes, 4));
  claim.purpose = static_cast<uint8_t>(Take(&bytes, 1));
  const uint64_t encrypts = Take(&bytes, 3);
  if (encrypts > 1) return std::nullopt;
  claim.encrypts = encrypts == 1;
  std::copy(bytes.begin(), bytes.end(), claim.nonce.begin());
  return claim;
}

PeerMac PeerMacOf(absl::string_view secret, PeerSide side, const PeerNonce& acceptor_nonce, const PeerClaim& claim) {
  // All parts but the label have a fixed length, so that no two texts are alike.
  std::string text(kLabel);
  text.push_back(static_cast<char>(side));
  text.append(acceptor_nonce.begin(), acceptor_nonce.end());
  text.append(EncodePeerClaim(claim));
  const std::string made = HmacSha256(secret, text);
  PeerMac mac;
  static_assert(sizeof(mac) == kSha256Bytes);
  std::copy(made.begin(), made.end(), mac.begin());
  return mac;
}

ConnectionSecrets ConnectionSecretsOf(absl::string_view secret, PeerSide own, const PeerNonce& acceptor_nonce,
                                      const PeerClaim& claim) {
  std::string salt(acceptor_nonce.begin(), acceptor_nonce.end());
  salt.append(claim.nonce.begin(), claim.nonce.end());
  const auto from = [&](PeerSide sender) {
    std::string info(kRecordsLabel);
    info.push_back(static_cast<char>(sender));
    info.append(EncodePeerClaim(claim));
    const std::string made = HkdfSha256(secret, salt, info, sizeof(RecordSecret));
    RecordSecret bytes;
    std::copy(made.begin(), made.end(), bytes.begin());
    return bytes;
  };
  const RecordSecret connectors = from(PeerSide::kConnector);
  const RecordSecret acceptors = from(PeerSide::kAcceptor);
  if (own == PeerSide::kConnector) return {connectors, acceptors};
  return {acceptors, connectors};
}

bool IsPeerMac(const PeerMac& expected, absl::string_view bytes) {
  return bytes.size() == expected.size() && CRYPTO_memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

}  // namespace farandole
