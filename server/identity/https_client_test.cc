#include "server/identity/https_client.h"

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read_until.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/identity/test_issuer.h"

// Set at the end of the test whose name server does not answer.
std::promise<void>& SilenceEnds() {
  static auto& ends = *new std::promise<void>();
  return ends;
}

// In the place of the system's: of one host's name servers none answers.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && strcmp(node, "silent.invalid") == 0) {
    SilenceEnds().get_future().wait_for(std::chrono::seconds(30));
    return EAI_AGAIN;
  }
  static const auto next = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, found);
}

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(HttpsUrlTest, HasAHostAPortAndATarget) {
  const auto parts = [](const char* text) {
    const absl::StatusOr<HttpsUrl> url = ParseHttpsUrl(text);
    EXPECT_TRUE(url.ok()) << url.status();
    return url.ok() ? url->host + " " + url->port + " " + url->target + " " + url->HostHeader() : "";
  };
  EXPECT_EQ(parts("https://id.example"), "id.example 443 / id.example");
  EXPECT_EQ(parts("https://id.example:443/"), "id.example 443 / id.example");
  EXPECT_EQ(parts("https://id.example:8443/realms/ml?x=1"), "id.example 8443 /realms/ml?x=1 id.example:8443");
  EXPECT_EQ(parts("https://id.example?x=1"), "id.example 443 /?x=1 id.example");
  EXPECT_EQ(parts("https://10.0.0.7:1/a"), "10.0.0.7 1 /a 10.0.0.7:1");
  // RFC 9110, 7.2: the header has the address in brackets, as the URL.
  EXPECT_EQ(parts("https://[fd00::7]/a"), "fd00::7 443 /a [fd00::7]");
  EXPECT_EQ(parts("https://[::1]:8443"), "::1 8443 / [::1]:8443");
}

TEST(HttpsUrlTest, EverythingElseIsRefused) {
  for (const char* text : {"", "id.example", "http://id.example", "https://", "https:///path", "https://id.example:0",
                           "https://id.example:70000", "https://id.example:x", "https://user@id.example",
                           "https://id.example/#a", "https://id.example/a b", "https://id.example/\r\nX: y",
                           "https://[::1", "https://::1", "https://[id.example]", "https://[]"}) {
    EXPECT_EQ(ParseHttpsUrl(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(HttpUrlTest, WhatMayBeASecretIsNotShown) {
  EXPECT_EQ(ShownUrl("https://collector:4318/v1/traces"), "https://collector:4318/v1/traces");
  EXPECT_EQ(ShownUrl("https://collector/v1?api-key=s3cret"), "https://collector/v1?...");
  EXPECT_EQ(ShownUrl("https://ann:s3cret@collector/v1?key=s3cret@x"), "https://...@collector/v1?...");
  EXPECT_EQ(ShownUrl("ann:s3cret@collector"), "...@collector");
  const absl::Status refused = ParseHttpUrl("https://ann:s3cret@collector").status();
  EXPECT_EQ(refused.message(), "\"https://...@collector\" is not https://HOST[:PORT][/PATH] or http://...");
}

TEST(HttpUrlTest, MayBeWithoutTls) {
  const absl::StatusOr<HttpsUrl> plain = ParseHttpUrl("http://collector:4318/v1/traces");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->is_plain);
  EXPECT_EQ(plain->HostHeader(), "collector:4318");
  EXPECT_EQ(ParseHttpUrl("http://collector")->port, "80");
  EXPECT_EQ(ParseHttpUrl("http://collector:80/")->HostHeader(), "collector");
  EXPECT_EQ(ParseHttpUrl("http://collector:443/")->HostHeader(), "collector:443");
  EXPECT_FALSE(ParseHttpUrl("https://collector")->is_plain);
  for (const char* text : {"", "collector:4318", "grpc://collector", "http://", "http://user@collector", "HTTP://c"})
    EXPECT_EQ(ParseHttpUrl(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
}

class HttpsClientTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HttpsClientTest, AsksAndProvesTheServer) {
  TestIssuer issuer(GetParam());
  HttpsRequest request;
  request.url = issuer.url() + "/keys";
  request.ca_pem = issuer.ca_pem();
  const absl::StatusOr<HttpsReply> reply = AskByHttps(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 200u);
  EXPECT_THAT(reply->body, HasSubstr("\"keys\""));
  request.url = issuer.url() + "/none";
  EXPECT_EQ(AskByHttps(request)->status, 404u);
  // Another authority, and the system's.
  request.ca_pem = TestIssuer().ca_pem();
  EXPECT_THAT(AskByHttps(request).status().message(), HasSubstr("cannot trust"));
  request.ca_pem = "";
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Hosts, HttpsClientTest, ::testing::Values("localhost", "127.0.0.1", "::1"));

TEST(HttpsClientBoundsTest, TheNameInTheUrlMustBeTheServers) {
  const TestIssuer issuer("localhost");
  HttpsRequest request;
  request.url = "https://127.0.0.1" + issuer.url().substr(issuer.url().rfind(':'));
  request.ca_pem = issuer.ca_pem();
  EXPECT_THAT(AskByHttps(request).status().message(), HasSubstr("cannot trust"));
}

TEST(HttpsClientBoundsTest, BoundsOfTimeAndBytesAreKept) {
  const TestIssuer issuer;
  HttpsRequest request;
  request.url = issuer.url() + "/keys";
  request.ca_pem = issuer.ca_pem();
  request.most_bytes = 100;
  EXPECT_THAT(AskByHttps(request).status().message(), HasSubstr("cannot understand"));
  request.timeout = absl::ZeroDuration();
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  request.ca_pem = "no certificate";
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HttpsClientBoundsTest, OnlyARequestThatMaySoGoesWithoutTls) {
  HttpsRequest request;
  request.url = "http://127.0.0.1:1/";
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.may_be_plain = true;
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kUnavailable);
}

TEST(HttpsClientBoundsTest, ACancelledRequestIsNotMade) {
  const TestIssuer issuer;
  RequestEnd end;
  HttpsRequest request;
  request.url = issuer.url() + "/keys";
  request.ca_pem = issuer.ca_pem();
  request.end = &end;
  EXPECT_TRUE(AskByHttps(request).ok());
  end.Cancel();
  EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kCancelled);
}

// A server without TLS that answers its one request with a beginning, and with `again` until the client closes or
// `most_bytes` are sent.
class RawServer {
 public:
  RawServer(std::string begin, std::string again, size_t most_bytes)
      : acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}),
        thread_([=] { Serve(begin, again, most_bytes); }) {}
  ~RawServer() { thread_.join(); }

  std::string url() const { return absl::StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port(), "/"); }
  size_t sent() const { return sent_; }

 private:
  void Serve(const std::string& begin, std::string again, size_t most_bytes) {
    boost::asio::ip::tcp::socket client(io_);
    acceptor_.accept(client);
    std::string request;
    boost::system::error_code error;
    boost::asio::read_until(client, boost::asio::dynamic_buffer(request), "\r\n\r\n", error);
    boost::asio::write(client, boost::asio::buffer(begin), error);
    const std::string unit = again;
    while (!unit.empty() && again.size() < 64 << 10) again += unit;
    while (!error && sent_ < most_bytes) sent_ += boost::asio::write(client, boost::asio::buffer(again), error);
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<size_t> sent_{0};
  std::thread thread_;
};

constexpr size_t kMiB = 1 << 20;

// The most memory that the process has had.
size_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t kib = 0;
  while (status >> word && word != "VmHWM:") continue;
  status >> kib;
  return kib << 10;
}

HttpsRequest PlainRequest(const RawServer& server) {
  HttpsRequest request;
  request.url = server.url();
  request.may_be_plain = true;
  return request;
}

TEST(HttpsClientBoundsTest, AReplyWithoutAnEndCostsABoundedMemory) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, std::string> replies[] = {{chunked + "1;", "a"},
                                                         {chunked, "0"},
                                                         {chunked + "0\r\nX: ", "a"},
                                                         {chunked + "0\r\n", "X: aaaaaaaaaaaaa\r\n"},
                                                         {chunked, "10\r\n0123456789abcdef\r\n"},
                                                         {"HTTP/1.1 200 OK\r\n\r\n", "a"},
                                                         {"HTTP/1.1 200 OK\r\nX: ", "a"}};
  for (const auto& [begin, again] : replies) {
    const size_t before = PeakBytes();
    const RawServer server(begin, again, 64 * kMiB);
    const absl::Status status = AskByHttps(PlainRequest(server)).status();
    EXPECT_THAT(status.message(), HasSubstr("cannot understand 127.0.0.1")) << begin;
    EXPECT_LT(PeakBytes() - before, 16 * kMiB) << begin << again;
    // The rest waits in the sockets.
    EXPECT_LT(server.sent(), 32 * kMiB) << begin << again;
  }
}

TEST(HttpsClientBoundsTest, AllRequestsThatAreUnderWayAreCancelled) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  RequestEnd end;
  HttpsRequest request;
  request.url = absl::StrCat("http://127.0.0.1:", acceptor.local_endpoint().port());
  request.may_be_plain = true;
  request.timeout = absl::Minutes(5);
  request.end = &end;
  std::vector<std::thread> asking;
  std::vector<boost::asio::ip::tcp::socket> asked;
  for (int i = 0; i < 2; ++i) {
    asking.emplace_back([&request] { EXPECT_EQ(AskByHttps(request).status().code(), absl::StatusCode::kCancelled); });
    asked.push_back(acceptor.accept());
  }
  end.Cancel();
  for (std::thread& one : asking) one.join();
}

TEST(HttpsClientBoundsTest, TheLargestReplyIsRead) {
  const std::string body(HttpsRequest().most_bytes, 'b');
  const std::string header = absl::StrCat("HTTP/1.1 200 OK\r\nX: ", std::string(8000, 'h'), "\r\n");
  const std::string replies[] = {
      absl::StrCat(header, "Content-Length: ", body.size(), "\r\n\r\n", body),
      absl::StrCat(header, "Transfer-Encoding: chunked\r\n\r\n40000\r\n", body, "\r\n0\r\n\r\n"),
      absl::StrCat(header, "\r\n", body)};
  for (const std::string& reply : replies) {
    const RawServer server(reply, "", 0);
    const absl::StatusOr<HttpsReply> read = AskByHttps(PlainRequest(server));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->body.size(), body.size());
  }
}

TEST(HttpsClientBoundsTest, ANameServerThatDoesNotAnswerDelaysNoTimeOut) {
  HttpsRequest request;
  request.url = "https://silent.invalid/";
  request.timeout = absl::Milliseconds(50);
  const absl::Time begin = SteadyNow();
  EXPECT_EQ(AskByHttps(request).status(), absl::DeadlineExceededError("silent.invalid has not answered within 50ms"));
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(20)) << "it gives up after 30 s";
  SilenceEnds().set_value();
}

}  // namespace
}  // namespace farandole
