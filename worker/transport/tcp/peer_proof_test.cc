#include "worker/transport/tcp/peer_proof.h"

#include <optional>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

PeerClaim Claim() {
  PeerClaim claim;
  claim.epoch = 0x0123456789abcdef;
  claim.from = 3;
  claim.to = 0x01020304;
  claim.purpose = 2;
  claim.encrypts = true;
  claim.nonce.fill('n');
  return claim;
}

std::string Text(const PeerMac& mac) { return std::string(mac.begin(), mac.end()); }

TEST(PeerProofTest, AClaimIsReadAsItWasWritten) {
  const std::string bytes = EncodePeerClaim(Claim());
  ASSERT_EQ(bytes.size(), kPeerClaimBytes);
  EXPECT_EQ(bytes.substr(0, 8), std::string("FDP1\xef\xcd\xab\x89"));
  const std::optional<PeerClaim> read = DecodePeerClaim(bytes);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->epoch, Claim().epoch);
  EXPECT_EQ(read->from, Claim().from);
  EXPECT_EQ(read->to, Claim().to);
  EXPECT_EQ(read->purpose, Claim().purpose);
  EXPECT_TRUE(read->encrypts);
  EXPECT_EQ(read->nonce, Claim().nonce);
}

TEST(PeerProofTest, OtherBytesAreNoClaim) {
  const std::string bytes = EncodePeerClaim(Claim());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(DecodePeerClaim(bytes.substr(0, size)).has_value());
  EXPECT_FALSE(DecodePeerClaim(bytes + "x").has_value());
  for (const size_t at : {0, 1, 2, 3, 21, 22, 23}) {
    std::string changed = bytes;
    changed[at] ^= 2;
    EXPECT_FALSE(DecodePeerClaim(changed).has_value()) << "byte " << at;
  }
}

TEST(PeerProofTest, TheProofCoversAllThatIsSaid) {
  PeerNonce nonce;
  nonce.fill('a');
  std::set<std::string> macs = {Text(PeerMacOf("secret", PeerSide::kConnector, nonce, Claim()))};
  EXPECT_EQ(macs.count(Text(PeerMacOf("secret", PeerSide::kConnector, nonce, Claim()))), 1u);
  macs.insert(Text(PeerMacOf("Secret", PeerSide::kConnector, nonce, Claim())));
  macs.insert(Text(PeerMacOf("secret", PeerSide::kAcceptor, nonce, Claim())));
  nonce[31] = 'b';
  macs.insert(Text(PeerMacOf("secret", PeerSide::kConnector, nonce, Claim())));
  nonce[31] = 'a';
  PeerClaim claim = Claim();
  for (const int part : {0, 1, 2, 3, 4, 5}) {
    claim = Claim();
    claim.epoch += part == 0;
    claim.from += part == 1;
    claim.to += part == 2;
    claim.purpose += part == 3;
    claim.nonce[0] += part == 4;
    claim.encrypts = part != 5;
    macs.insert(Text(PeerMacOf("secret", PeerSide::kConnector, nonce, claim)));
  }
  EXPECT_EQ(macs.size(), 10u);
}

TEST(PeerProofTest, EachDirectionOfEachConnectionHasItsOwnSecret) {
  PeerNonce nonce;
  nonce.fill('a');
  const auto secrets_of = [&](PeerSide side, const PeerClaim& claim, const char* secret = "secret") {
    return ConnectionSecretsOf(secret, side, nonce, claim);
  };
  const ConnectionSecrets connectors = secrets_of(PeerSide::kConnector, Claim());
  const ConnectionSecrets acceptors = secrets_of(PeerSide::kAcceptor, Claim());
  EXPECT_EQ(connectors.send, acceptors.receive);
  EXPECT_EQ(connectors.receive, acceptors.send);
  std::set<RecordSecret> all = {connectors.send, connectors.receive,
                                secrets_of(PeerSide::kConnector, Claim(), "Secret").send};
  nonce[0] = 'b';
  all.insert(secrets_of(PeerSide::kConnector, Claim()).send);
  nonce[0] = 'a';
  for (const int part : {0, 1, 2, 3, 4}) {
    PeerClaim claim = Claim();
    claim.epoch += part == 0;
    claim.from += part == 1;
    claim.to += part == 2;
    claim.purpose += part == 3;
    claim.nonce[0] += part == 4;
    all.insert(secrets_of(PeerSide::kConnector, claim).send);
  }
  EXPECT_EQ(all.size(), 9u);
}

TEST(PeerProofTest, OnlyTheWholeMacIsOne) {
  const PeerMac mac = PeerMacOf("secret", PeerSide::kAcceptor, PeerNonce{}, Claim());
  EXPECT_TRUE(IsPeerMac(mac, Text(mac)));
  EXPECT_FALSE(IsPeerMac(mac, ""));
  EXPECT_FALSE(IsPeerMac(mac, Text(mac).substr(0, 31)));
  for (size_t at = 0; at < mac.size(); ++at) {
    std::string changed = Text(mac);
    changed[at] ^= 0x80;
    EXPECT_FALSE(IsPeerMac(mac, changed)) << "byte " << at;
  }
}

TEST(PeerProofTest, NoncesDiffer) {
  PeerNonce first{};
  PeerNonce second{};
  ASSERT_TRUE(FillPeerNonce(&first) && FillPeerNonce(&second));
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace farandole
