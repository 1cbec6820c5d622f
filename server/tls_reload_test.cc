// The coordinator's certificate is replaced while it runs.

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/testing/log_lines.h"
#include "base/tls/certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"
#include "server/testing/raw_client.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

Certificate Make() {
  const absl::Time now = absl::Now();
  const absl::StatusOr<Certificate> made = MakeCertificate({"localhost"}, now - absl::Hours(1), now + absl::Hours(1));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Certificate();
}

class TlsReloadTest : public CoordinatorFixture {
 protected:
  TlsReloadTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/reload-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    options_.tls_cert = directory + "/cert.pem";
    options_.tls_key = directory + "/key.pem";
    options_.http = "127.0.0.1:0";
  }

  void Write(const Certificate& pair) const {
    std::ofstream(options_.tls_cert) << pair.certificate_pem;
    std::ofstream(options_.tls_key) << pair.key_pem;
  }

  // A channel that trusts this certificate alone, with a connection of its own.
  std::shared_ptr<grpc::Channel> ChannelFor(const Certificate& trusted) const {
    grpc::SslCredentialsOptions trust;
    trust.pem_root_certs = trusted.certificate_pem;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("localhost");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(coordinator_->address(), grpc::SslCredentials(trust), arguments);
  }

  bool CanList(const std::shared_ptr<grpc::Channel>& channel) const {
    grpc::ClientContext context;
    Client().Prepare(&context);
    context.set_wait_for_ready(false);
    v1::ListJobsResponse response;
    return v1::MonitorService::NewStub(channel)->ListJobs(&context, v1::ListJobsRequest(), &response).ok();
  }

  std::string Metrics() const {
    return HttpGet(coordinator_->http_address(), "/metrics", coordinator_->token()).body();
  }

  bool Await(const std::function<bool()>& wanted) const {
    const absl::Time end = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
    while (!wanted()) {
      if (SteadyNow() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

TEST_F(TlsReloadTest, NewConnectionsGetTheNewCertificateAndStreamsGoOn) {
  const Certificate first = Make();
  const Certificate second = Make();
  Write(first);
  Start();
  const auto channel = ChannelFor(first);
  ASSERT_TRUE(CanList(channel));
  // A worker's stream, over the first certificate.
  const auto stub = v1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  Client().Prepare(&context);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  const auto stream = stub->Attach(&context);

  Write(second);
  ASSERT_TRUE(Await([&] { return CanList(ChannelFor(second)); }));
  // The stream from before still carries messages, and its connection calls.
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_job("unknown");
  ASSERT_TRUE(stream->Write(hello));
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(end.error_message(), HasSubstr("sends no secret that proves its incarnation"));
  EXPECT_TRUE(CanList(channel));
  EXPECT_FALSE(CanList(ChannelFor(first)));
  EXPECT_THAT(Metrics(), HasSubstr("farandole_tls_certificates_total{result=\"served\"} 1"));
  EXPECT_THAT(Metrics(), HasSubstr("farandole_tls_certificate_end_seconds "));
}

TEST_F(TlsReloadTest, ABadPairKeepsTheOldCertificateAndIsCounted) {
  const Certificate first = Make();
  Write(first);
  Start();
  Write({Make().certificate_pem, first.key_pem});
  ASSERT_TRUE(
      Await([&] { return absl::StrContains(Metrics(), "farandole_tls_certificates_total{result=\"refused\"} 1"); }));
  EXPECT_TRUE(CanList(ChannelFor(first)));
  // And the repaired one is taken.
  const Certificate second = Make();
  Write(second);
  EXPECT_TRUE(Await([&] { return CanList(ChannelFor(second)); }));
}

TEST_F(TlsReloadTest, HandshakesThatFailFillNoLogAndAreCounted) {
  constexpr int kStrangers = 100;
  Write(Make());
  Start();
  LogLines lines;
  for (int i = 0; i < kStrangers; ++i) {
    RawClient stranger(coordinator_->address());
    stranger.Greet();
    EXPECT_TRUE(stranger.IsClosedWithin(absl::Seconds(kTestDeadlineSeconds)));
  }
  EXPECT_TRUE(Await([&] {
    const std::string text = Metrics();
    const std::string row = "\nfarandole_failed_handshakes_total ";
    const size_t at = text.find(row);
    return at != std::string::npos && std::atoi(text.c_str() + at + row.size()) >= kStrangers;
  }));
  EXPECT_LT(lines.Take().size(), 20u) << "of " << kStrangers << " strangers";
}

}  // namespace
}  // namespace farandole
