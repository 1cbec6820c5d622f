#include "server/identity/client_certificates.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kEnd = kStart + absl::Hours(1);

class ClientCertificatesTest : public ::testing::Test {
 protected:
  ClientCertificatesTest() {
    for (const char* name : {"default", "vision"}) {
      v1::TenantRecord record;
      record.set_name(name);
      EXPECT_TRUE(tenants_.Put(record).ok());
    }
  }

  std::string Issue(const std::vector<std::string>& uris) const {
    return authority_.Issue(uris, kStart, kEnd).certificate_pem;
  }

  absl::Time now_ = kStart;
  Tenants tenants_;
  Metrics metrics_{"1", kStart};
  const TestAuthority authority_{"CA"};
  ClientCertificates certificates_{"example.org", &tenants_, &metrics_, [this] { return now_; }};
};

TEST_F(ClientCertificatesTest, ANameGivesTenantAndRoleUntilTheCertificatesEnd) {
  const std::string pem = Issue({"spiffe://example.org/tenant/vision/launcher"});
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Access> access = certificates_.Authenticate(pem);
    ASSERT_TRUE(access.ok()) << access.status();
    EXPECT_EQ(access->tenant, "vision");
    EXPECT_EQ(access->role, v1::LAUNCHER);
    EXPECT_EQ(access->expires, kEnd);
    EXPECT_EQ(access->Text(), "spiffe://example.org/tenant/vision/launcher (launcher of tenant vision)");
  }
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_client_certificates_total{result=\"accepted\"} 1"));
  now_ = kEnd;
  const absl::Status status = certificates_.Authenticate(pem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(status.message(),
            "the certificate of spiffe://example.org/tenant/vision/launcher expired at 2023-11-14T23:13:20Z, and now "
            "is 2023-11-14T23:13:20Z");
}

TEST_F(ClientCertificatesTest, TheNextCertificateIsOfTheSameOwner) {
  const std::string name = "spiffe://example.org/tenant/vision/launcher";
  const std::string first = certificates_.Authenticate(Issue({name}))->token_id;
  EXPECT_EQ(certificates_.Authenticate(Issue({name}))->token_id, first);
  EXPECT_NE(certificates_.Authenticate(Issue({"spiffe://example.org/tenant/vision/admin"}))->token_id, first);
}

TEST_F(ClientCertificatesTest, OthersAreRefusedAndCounted) {
  const auto refusal = [this](const std::vector<std::string>& uris) {
    const absl::Status status = certificates_.Authenticate(Issue(uris)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({"spiffe://other.org/tenant/vision/viewer"}), HasSubstr("of another trust domain"));
  EXPECT_THAT(refusal({}), HasSubstr("has no URI"));
  EXPECT_EQ(refusal({"spiffe://example.org/tenant/sound/viewer"}),
            "the client's certificate is for spiffe://example.org/tenant/sound/viewer, and there is no tenant sound");
  EXPECT_THAT(certificates_.Authenticate("no PEM").status().message(), HasSubstr("cannot be read"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_client_certificates_total{result=\"name\"} 3"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_client_certificates_total{result=\"tenant\"} 1"));
}

}  // namespace
}  // namespace farandole
