#include "base/tls/client_certificate.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class ClientCertificateTest : public ::testing::Test {
 protected:
  ClientCertificateTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/client-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    certificate_file_ = directory + "/cert.pem";
    key_file_ = directory + "/key.pem";
    Write(authority_.Issue({"spiffe://a.example/tenant/team/viewer"}, kStart, kStart + absl::Hours(1)));
  }

  void Write(const Certificate& pair) const {
    std::ofstream(certificate_file_) << pair.certificate_pem;
    std::ofstream(key_file_) << pair.key_pem;
    ASSERT_EQ(chmod(key_file_.c_str(), 0600), 0);
  }
  absl::StatusOr<Certificate> Read(absl::Time now = kStart) const {
    return ReadClientCertificate(certificate_file_, key_file_, now);
  }

  const TestAuthority authority_{"CA"};
  std::string certificate_file_;
  std::string key_file_;
};

TEST_F(ClientCertificateTest, ReadsAPairThatIsGoodNow) {
  const absl::StatusOr<Certificate> pair = Read();
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_THAT(pair->certificate_pem, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(pair->key_pem, HasSubstr("PRIVATE KEY"));
}

TEST_F(ClientCertificateTest, AKeyIsForItsUserAndItsGroup) {
  ASSERT_EQ(chmod(key_file_.c_str(), 0640), 0);
  EXPECT_TRUE(Read().ok());
  ASSERT_EQ(chmod(key_file_.c_str(), 0644), 0);
  const absl::Status status = Read().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), absl::StrCat("the key file ", key_file_,
                                           " has mode 0644, so that every user of this host may read it; make it "
                                           "private with `chmod 600 ",
                                           key_file_, "`"));
}

TEST_F(ClientCertificateTest, AnExpiredOrForeignPairIsNamedByItsFiles) {
  const absl::Status expired = Read(kStart + absl::Hours(1)).status();
  EXPECT_EQ(expired.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(expired.message(),
              HasSubstr(absl::StrCat("the certificate file ", certificate_file_, " with the key file ", key_file_,
                                     ": certificate 1 of 1 is valid from ")));
  std::ofstream(key_file_) << authority_.Issue({}, kStart, kStart + absl::Hours(1)).key_pem;
  EXPECT_THAT(Read().status().message(), HasSubstr("the private key is not that of the first certificate"));
}

TEST_F(ClientCertificateTest, AMissingFileIsNamed) {
  const absl::Status status = ReadClientCertificate("/no/cert", key_file_, kStart).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "the certificate file /no/cert cannot be read: No such file or directory");
}

}  // namespace
}  // namespace farandole
