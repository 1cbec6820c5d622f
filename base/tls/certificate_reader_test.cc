#include "base/tls/certificate_reader.h"

#include <openssl/x509.h>

#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kEnd = kStart + absl::Hours(48);

Certificate Make() {
  absl::StatusOr<Certificate> made = MakeCertificate({"a.example", "b.example", "10.1.2.3", "fd00::7"}, kStart, kEnd);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Certificate();
}

TEST(CertificateReaderTest, TellsNamesAddressesAndTimes) {
  const absl::StatusOr<CertificateFacts> facts = CheckCertificate(Make(), kStart + absl::Hours(1));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->dns_names, ElementsAre("a.example", "b.example"));
  EXPECT_THAT(facts->addresses, ElementsAre("10.1.2.3", "fd00::7"));
  EXPECT_EQ(facts->not_before, kStart);
  EXPECT_EQ(facts->not_after, kEnd);
}

TEST(CertificateReaderTest, TellsTheUrisOfTheFirstCertificate) {
  const TestAuthority authority("CA");
  const Certificate pair = authority.Issue({"spiffe://a.example/tenant/team/viewer", "urn:x"}, kStart, kEnd);
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(pair.certificate_pem + Make().certificate_pem);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->uris, ElementsAre("spiffe://a.example/tenant/team/viewer", "urn:x"));
  EXPECT_EQ(facts->not_after, kEnd);
  EXPECT_EQ(ReadCertificate("no PEM").status().message(), "there is no certificate in PEM");
}

TEST(CertificateReaderTest, RefusesAPairThatNobodyCanUse) {
  const Certificate good = Make();
  const auto refusal = [](const Certificate& pair, absl::Time now = kStart + absl::Hours(1)) {
    const absl::Status status = CheckCertificate(pair, now).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({"", good.key_pem}), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(refusal({good.certificate_pem.substr(0, 200), good.key_pem}), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(refusal({good.certificate_pem, ""}), HasSubstr("no private key in PEM"));
  EXPECT_THAT(refusal({good.certificate_pem, good.key_pem.substr(0, 100)}), HasSubstr("no private key in PEM"));
  EXPECT_THAT(refusal({good.certificate_pem, Make().key_pem}), HasSubstr("is not that of the first certificate"));
  EXPECT_THAT(refusal(good, kStart - absl::Hours(1)), HasSubstr("is valid from 2023-11-14T22:13:20Z to"));
  EXPECT_THAT(refusal(good, kEnd), HasSubstr("and now is 2023-11-16T22:13:20Z"));
}

TEST(CertificateReaderTest, AnExpiredCertificateBehindTheFirstIsNamed) {
  const absl::StatusOr<Certificate> old = MakeCertificate({}, kStart - absl::Hours(9), kStart - absl::Hours(8));
  ASSERT_TRUE(old.ok());
  const Certificate good = Make();
  const absl::Status status =
      CheckCertificate({good.certificate_pem + old->certificate_pem, good.key_pem}, kStart).status();
  EXPECT_THAT(status.message(), HasSubstr("certificate 2 of 2 is valid from"));
}

TEST(CertificateReaderTest, TrustIsAddedOncePerCertificateOfTheText) {
  X509_STORE* store = X509_STORE_new();
  EXPECT_EQ(AddTrust(Make().certificate_pem + "between\n" + Make().certificate_pem, store), 2);
  EXPECT_EQ(AddTrust("no certificate", store), 0);
  X509_STORE_free(store);
}

}  // namespace
}  // namespace farandole
