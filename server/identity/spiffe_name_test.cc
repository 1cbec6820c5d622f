#include "server/identity/spiffe_name.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(SpiffeNameTest, ANameIsATenantsRoleOrTheClusters) {
  struct Row {
    const char* uri;
    const char* tenant;
    v1::Role role;
  };
  const Row rows[] = {
      {"spiffe://example.org/tenant/vision/viewer", "vision", v1::VIEWER},
      {"spiffe://example.org/tenant/vision/launcher", "vision", v1::LAUNCHER},
      {"spiffe://example.org/tenant/a-1/operator", "a-1", v1::OPERATOR},
      {"spiffe://example.org/tenant/default/admin", "default", v1::ADMIN},
      {"spiffe://example.org/cluster/auditor", "default", v1::AUDITOR},
      {"spiffe://example.org/cluster/operator", "default", v1::CLUSTER_OPERATOR},
  };
  for (const Row& row : rows) {
    const absl::StatusOr<SpiffeName> name = ReadSpiffeName({row.uri}, "example.org");
    ASSERT_TRUE(name.ok()) << row.uri << ": " << name.status();
    EXPECT_EQ(name->uri, row.uri);
    EXPECT_EQ(name->tenant, row.tenant) << row.uri;
    EXPECT_EQ(name->role, row.role) << row.uri;
  }
}

TEST(SpiffeNameTest, AnythingElseIsNamedWithWhatIsWanted) {
  struct Row {
    std::vector<std::string> uris;
    const char* found;
  };
  const std::string good = "spiffe://example.org/tenant/vision/viewer";
  const Row rows[] = {
      {{}, "has no URI;"},
      {{good, good}, "has 2 URIs;"},
      {{good, "https://example.org"}, "has 2 URIs;"},
      {{"https://example.org/tenant/vision/viewer"}, "which is no SPIFFE ID"},
      {{"SPIFFE://example.org/tenant/vision/viewer"}, "which is no SPIFFE ID"},
      {{""}, "which is no SPIFFE ID"},
      {{"spiffe://other.org/tenant/vision/viewer"}, "spiffe://other.org/tenant/vision/viewer of another trust domain"},
      {{"spiffe://example.org.other/tenant/vision/viewer"}, "of another trust domain"},
      {{"spiffe://EXAMPLE.org/tenant/vision/viewer"}, "of another trust domain"},
      {{"spiffe://example.org:443/tenant/vision/viewer"}, "of another trust domain"},
      {{"spiffe://me@example.org/tenant/vision/viewer"}, "of another trust domain"},
      {{"spiffe:///tenant/vision/viewer"}, "of another trust domain"},
      {{"spiffe://example.org"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/vision"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant//viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/Vision/viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/vision/viewer/"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org//tenant/vision/viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/../viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/vision%2Fviewer/viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenants/vision/viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/cluster/tenant/vision/viewer"}, "names neither a tenant's role nor a cluster's"},
      {{"spiffe://example.org/tenant/vision/root"}, "whose role no certificate gives"},
      {{"spiffe://example.org/tenant/vision/auditor"}, "whose role no certificate gives"},
      {{"spiffe://example.org/tenant/vision/viewer?x=1"}, "whose role no certificate gives"},
      {{"spiffe://example.org/tenant/vision/viewer#x"}, "whose role no certificate gives"},
      {{"spiffe://example.org/tenant/vision/"}, "whose role no certificate gives"},
      {{"spiffe://example.org/cluster/root"}, "whose role no certificate gives"},
      {{"spiffe://example.org/cluster/admin"}, "whose role no certificate gives"},
      {{good + std::string(1, '\0')}, "whose role no certificate gives"},
      {{good + std::string(2048, 'x')}, "has a URI of 2089 bytes"},
  };
  for (const Row& row : rows) {
    const absl::Status status = ReadSpiffeName(row.uris, "example.org").status();
    const std::string shown = row.uris.empty() ? "none" : row.uris[0];
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << shown;
    EXPECT_THAT(status.message(), HasSubstr(row.found)) << shown;
    EXPECT_THAT(status.message(), HasSubstr("; wanted is one URI, spiffe://example.org/tenant/TENANT/ROLE"));
  }
}

TEST(SpiffeNameTest, ATrustDomainIsANameAlone) {
  for (const char* good : {"example.org", "prod", "a_b-c.1"}) EXPECT_TRUE(CheckTrustDomain(good).ok()) << good;
  for (const char* bad : {"", "spiffe://example.org", "Example.org", "example.org/", "a b"}) {
    const absl::Status status = CheckTrustDomain(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("of [a-z0-9._-], such as example.org"));
  }
}

}  // namespace
}  // namespace farandole
