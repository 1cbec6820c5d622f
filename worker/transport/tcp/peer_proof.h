#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PROOF_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PROOF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/transport/tcp/record_cipher.h"

namespace farandole {

// The handshake of a connection between hosts, before anything else, by which each end knows that the other holds the
// epoch's secret and is the rank that it means:
//
//   acceptor   PeerNonce                          random, whoever connects
//   connector  PeerClaim, its MAC for kConnector  88 bytes
//   acceptor   its MAC for kAcceptor              32 bytes
//   connector  kPeerChosen                        one byte, on one of the connections that it has tried
//
// The connector proves itself first, so that a stranger gets random bytes and an end for anything it sends. The MAC is
// HMAC-SHA256 over a label, the side, both nonces and the whole claim: recorded bytes prove nothing on another
// connection, and one side's cannot be turned back on it.
using PeerNonce = std::array<unsigned char, 32>;
using PeerMac = std::array<unsigned char, 32>;

struct PeerClaim {
  uint64_t epoch = 0;
  uint32_t from = 0;  // the connector's rank
  uint32_t to = 0;
  uint8_t purpose = 0;
  bool encrypts = false;  // what follows the handshake, both ways, is in records (record_cipher.h)
  PeerNonce nonce{};      // the connector's
};

enum class PeerSide : uint8_t { kConnector = 1, kAcceptor = 2 };

constexpr size_t kPeerClaimBytes = 4 + 8 + 4 + 4 + 4 + 32;
constexpr char kPeerChosen = 'C';

// False: the system gives no random bytes.
bool FillPeerNonce(PeerNonce* nonce);

// kPeerClaimBytes bytes, little-endian.
std::string EncodePeerClaim(const PeerClaim& claim);
// Nothing where the bytes are no claim of this version.
std::optional<PeerClaim> DecodePeerClaim(absl::string_view bytes);

PeerMac PeerMacOf(absl::string_view secret, PeerSide side, const PeerNonce& acceptor_nonce, const PeerClaim& claim);
// The secrets by which the end that is `own` encrypts and decrypts after the handshake: by HKDF of the epoch's secret,
// both nonces, the whole claim and the direction, so that no two directions or connections have a key in common.
ConnectionSecrets ConnectionSecretsOf(absl::string_view secret, PeerSide own, const PeerNonce& acceptor_nonce,
                                      const PeerClaim& claim);
// In constant time.
bool IsPeerMac(const PeerMac& expected, absl::string_view bytes);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PROOF_H_
