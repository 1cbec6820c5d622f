#include "server/identity/https_client.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/identity/test_issuer.h"

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

}  // namespace
}  // namespace farandole
