// The errors of a worker that does not agree with its coordinator about TLS, with a real gRPC server as its peer.
#include "worker/control/tls_probe.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/tls/certificate.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/control/scripted_coordinator.h"
#include "worker/control/worker_under_test.h"

// c-ares, through which gRPC resolves names, loses the name of the domain that it reads.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so\n"; }

namespace farandole {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Certificate MakeOne(const std::vector<std::string>& names, absl::Duration from, absl::Duration until) {
  const absl::Time now = absl::Now();
  absl::StatusOr<Certificate> made = MakeCertificate(names, now + from, now + until);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

Certificate MakeGood() { return MakeOne({"localhost", "127.0.0.1"}, -absl::Hours(1), absl::Hours(1)); }

void UseTls(const Certificate& certificate, ScriptedCoordinator* coordinator) {
  coordinator->tls_certificate_pem = certificate.certificate_pem;
  coordinator->tls_key_pem = certificate.key_pem;
}

// The status of the start of a worker that trusts `ca_pem`.
absl::Status Join(const std::string& address, const std::string& ca_pem) {
  WorkerUnderTest worker(address);
  worker.options.tls_ca_pem = ca_pem;
  worker.options.tls_ca_origin = ca_pem.empty() ? "" : "/etc/ca.pem";
  worker.join.set_join_timeout_ms(60'000);
  return worker.Start();
}

TEST(TlsProbeTest, AWorkerJoinsByAddressAndByNameWhereTheCertificateProvesTheCoordinator) {
  const Certificate certificate = MakeGood();
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  EXPECT_TRUE(Join(coordinator.address(), certificate.certificate_pem).ok());
  const std::string port = coordinator.address().substr(coordinator.address().rfind(':'));
  const absl::Status by_name = Join(absl::StrCat("localhost", port), certificate.certificate_pem);
  EXPECT_TRUE(by_name.ok()) << by_name;
}

TEST(TlsProbeTest, AnotherAuthorityIsNamedAtOnce) {
  ScriptedCoordinator coordinator;
  UseTls(MakeGood(), &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), MakeGood().certificate_pem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("coordinator ", coordinator.address(),
                                     " has a certificate that descends from no authority in /etc/ca.pem (")));
  EXPECT_EQ(coordinator.tokens.size(), 0u) << "nothing secret is sent to who is not proven";
}

TEST(TlsProbeTest, AnExpiredCertificateIsNamedWithItsTime) {
  const Certificate certificate = MakeOne({"127.0.0.1"}, -absl::Hours(48), -absl::Hours(24));
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), certificate.certificate_pem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  const std::string day = absl::FormatTime("%Y-%m-%d ", absl::Now() - absl::Hours(24), absl::UTCTimeZone());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(" has a certificate that expired on "), HasSubstr(day), HasSubstr(" UTC")));
}

TEST(TlsProbeTest, ACertificateOfTomorrowAsksForTheClock) {
  const Certificate certificate = MakeOne({"127.0.0.1"}, absl::Hours(24), absl::Hours(48));
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  EXPECT_THAT(std::string(Join(coordinator.address(), certificate.certificate_pem).message()),
              AllOf(HasSubstr(" has a certificate that is not valid before "), HasSubstr("clock")));
}

TEST(TlsProbeTest, AForeignNameIsNamedWithThoseOfTheCertificate) {
  const Certificate certificate = MakeOne({"node-7", "10.1.2.3"}, -absl::Hours(1), absl::Hours(1));
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), certificate.certificate_pem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(status.message(), absl::StrCat("coordinator ", coordinator.address(),
                                           " has a certificate for node-7, 10.1.2.3, not for '127.0.0.1'"));
}

TEST(TlsProbeTest, AWorkerWithoutTlsIsToldThatTheCoordinatorSpeaksIt) {
  ScriptedCoordinator coordinator;
  UseTls(MakeGood(), &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), "");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("coordinator ", coordinator.address(), " speaks TLS, and no CA file was given")));
}

TEST(TlsProbeTest, AWorkerWithTlsIsToldThatTheCoordinatorSpeaksNone) {
  ScriptedCoordinator coordinator;
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), MakeGood().certificate_pem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(" speaks no TLS"), HasSubstr("/etc/ca.pem")));
  EXPECT_EQ(coordinator.tokens.size(), 0u);
}

TEST(TlsProbeTest, AFileWithoutACertificateIsNamed) {
  ScriptedCoordinator coordinator;
  UseTls(MakeGood(), &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const absl::Status status = Join(coordinator.address(), "no certificate");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message(), "the CA file /etc/ca.pem holds no certificate in PEM");
}

TEST(TlsProbeTest, ARefusedCertificateIsNamedAtOnceAndAGoodOneJoins) {
  const Certificate certificate = MakeGood();
  const TestAuthority authority("CA");
  const TestAuthority stranger("a stranger");
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  coordinator.tls_client_ca_pem = authority.pem();
  ASSERT_TRUE(coordinator.Listen());
  const auto join = [&](const TestAuthority& issuer) {
    const Certificate own = issuer.Issue({}, absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1));
    WorkerUnderTest worker(coordinator.address());
    worker.options.tls_ca_pem = certificate.certificate_pem;
    worker.options.tls_ca_origin = "/etc/ca.pem";
    worker.options.tls_cert_pem = own.certificate_pem;
    worker.options.tls_key_pem = own.key_pem;
    worker.options.tls_cert_file = "/run/svid.pem";
    worker.join.set_join_timeout_ms(60'000);
    return worker.Start();
  };
  const absl::Status refused = join(stranger);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("coordinator ", coordinator.address(),
                                     " does not accept the certificate in /run/svid.pem, which must descend from")));
  const absl::Status joined = join(authority);
  EXPECT_TRUE(joined.ok()) << joined;
  EXPECT_TRUE(Join(coordinator.address(), certificate.certificate_pem).ok()) << "a client may come without one";
}

TEST(TlsProbeTest, AProxyThatWantsACertificateOfEverybodyIsNoFault) {
  const Certificate certificate = MakeGood();
  const TestAuthority authority("CA");
  ScriptedCoordinator proxy;
  UseTls(certificate, &proxy);
  proxy.tls_client_ca_pem = authority.pem();
  proxy.tls_requires_certificate = true;
  ASSERT_TRUE(proxy.Listen());
  TlsQuestion question;
  question.address = proxy.address();
  question.ca_pem = certificate.certificate_pem;
  const Certificate own = authority.Issue({}, absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1));
  question.cert_pem = own.certificate_pem;
  question.key_pem = own.key_pem;
  const absl::Status fault = FindTlsFault(question, absl::Seconds(10));
  EXPECT_TRUE(fault.ok()) << fault;
}

TEST(TlsProbeTest, WhereNobodyListensNoFaultIsSeen) {
  ScriptedCoordinator coordinator;
  EXPECT_TRUE(FindTlsFault({coordinator.address(), "", ""}, absl::Seconds(10)).ok());
}

TEST(TlsProbeTest, OfManyAddressesTheFirstThatProvesItselfIsFound) {
  const Certificate certificate = MakeGood();
  ScriptedCoordinator silent;
  ScriptedCoordinator stranger;
  UseTls(MakeGood(), &stranger);
  ASSERT_TRUE(stranger.Listen());
  ScriptedCoordinator coordinator;
  UseTls(certificate, &coordinator);
  ASSERT_TRUE(coordinator.Listen());
  const std::vector<std::string> strangers = {silent.address(), stranger.address()};
  std::vector<std::string> all = strangers;
  all.push_back(coordinator.address());
  const absl::StatusOr<std::string> found = FindProvenAddress(all, certificate.certificate_pem, absl::Seconds(30));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, coordinator.address());
  const absl::StatusOr<std::string> none = FindProvenAddress(strangers, certificate.certificate_pem, absl::Seconds(30));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr(absl::StrCat(silent.address(), ": Connection refused; ")),
                    HasSubstr(absl::StrCat(stranger.address(), ": coordinator "))));
}

}  // namespace
}  // namespace farandole
