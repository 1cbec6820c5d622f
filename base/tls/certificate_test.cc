#include "base/tls/certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

class CertificateTest : public testing::Test {
 protected:
  CertificateTest() {
    const absl::Time now = absl::Now();
    const absl::StatusOr<Certificate> made =
        MakeCertificate({"node-3.example", "10.1.2.3", "fd00::7", "no name\n", ""}, now, now + absl::Hours(24));
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return;
    BIO* text = BIO_new_mem_buf(made->certificate_pem.data(), static_cast<int>(made->certificate_pem.size()));
    certificate_ = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    text = BIO_new_mem_buf(made->key_pem.data(), static_cast<int>(made->key_pem.size()));
    key_ = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
    BIO_free(text);
  }
  ~CertificateTest() override {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }

  X509* certificate_ = nullptr;
  EVP_PKEY* key_ = nullptr;
};

TEST_F(CertificateTest, FitsItsKeyAndIsSignedByIt) {
  EXPECT_EQ(X509_check_private_key(certificate_, key_), 1);
  EXPECT_EQ(X509_verify(certificate_, key_), 1);
}

TEST_F(CertificateTest, HoldsForEachNameAndAddressAndNoOther) {
  EXPECT_EQ(X509_check_host(certificate_, "node-3.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate_, "10.1.2.3", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate_, "fd00::7", 0), 1);
  EXPECT_EQ(X509_check_host(certificate_, "node-4.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(certificate_, "10.1.2.4", 0), 0);
}

TEST_F(CertificateTest, CannotSignOthersAndHoldsForTheTimeAsked) {
  EXPECT_EQ(X509_check_ca(certificate_), 0);
  int days = 0;
  int seconds = 0;
  ASSERT_EQ(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate_), X509_get0_notAfter(certificate_)), 1);
  EXPECT_EQ(days, 1);
  EXPECT_EQ(seconds, 0);
}

TEST_F(CertificateTest, TwoAreNeverTheSame) {
  const absl::Time now = absl::Now();
  EXPECT_NE(MakeCertificate({"a"}, now, now + absl::Hours(1))->certificate_pem,
            MakeCertificate({"a"}, now, now + absl::Hours(1))->certificate_pem);
}

}  // namespace
}  // namespace farandole
