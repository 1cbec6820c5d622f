#include "server/spans/otlp_variables.h"

#include <fstream>
#include <map>
#include <string>

#include "base/tls/test_authority.h"
#include "base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<OtlpOptions> Read(const Variables& variables, const std::string& endpoint = "") {
  return ReadOtlpOptions(endpoint, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

std::string UrlOf(const Variables& variables, const std::string& endpoint = "") {
  const absl::StatusOr<OtlpOptions> options = Read(variables, endpoint);
  return options.ok() ? options->url : std::string(options.status().message());
}

std::string Wrong(const Variables& variables, const std::string& endpoint = "http://c:1") {
  const absl::StatusOr<OtlpOptions> options = Read(variables, endpoint);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(options.status().message());
}

TEST(OtlpVariablesTest, NoEndpointIsNoExport) { EXPECT_EQ(UrlOf({{"OTEL_SERVICE_NAME", "x"}}), ""); }

TEST(OtlpVariablesTest, TheEndpointIsABaseAndThatOfTracesIsWhole) {
  EXPECT_EQ(UrlOf({}, "http://c:4318"), "http://c:4318/v1/traces");
  EXPECT_EQ(UrlOf({}, "https://c/otlp/"), "https://c/otlp/v1/traces");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"}}), "http://c:4318/v1/traces");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"},
                   {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own:4318/here"}}),
            "http://own:4318/here");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"}}, "http://flag:1"), "http://flag:1/v1/traces");
}

TEST(OtlpVariablesTest, OpenTelemetrySwitchesItsOwnEndpointOff) {
  const Variables off = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_SDK_DISABLED", "True"}};
  EXPECT_EQ(UrlOf(off), "");
  EXPECT_EQ(UrlOf(off, "http://flag:1"), "http://flag:1/v1/traces");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_TRACES_EXPORTER", "none"}}), "");
}

TEST(OtlpVariablesTest, AWrongEndpointIsRefusedByItsName) {
  EXPECT_THAT(UrlOf({}, "collector:4317"), HasSubstr("--otlp-endpoint: \"collector:4317/v1/traces\" is not https://"));
  EXPECT_THAT(UrlOf({}, "http://c/?x=1"), HasSubstr("has a query"));
  EXPECT_THAT(UrlOf({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://c"}}),
              HasSubstr("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: \"ftp://c\""));
  const Variables grpc = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
  EXPECT_THAT(UrlOf(grpc), HasSubstr("OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not spoken"));
  EXPECT_EQ(UrlOf(grpc, "http://c:4318"), "http://c:4318/v1/traces");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}}),
            "http://c:4318/v1/traces");
}

TEST(OtlpVariablesTest, HeadersAreNamedAndDecoded) {
  const absl::StatusOr<OtlpOptions> options =
      Read({{"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20YTpi==, x-scope=vision ,,"}}, "http://c:1");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->headers, UnorderedElementsAre(Pair("Authorization", "Basic YTpi=="), Pair("x-scope", "vision")));
  EXPECT_THAT(Read({{"OTEL_EXPORTER_OTLP_HEADERS", "a=1"}, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"}}, "http://c:1")
                  ->headers,
              UnorderedElementsAre(Pair("b", "2")));
}

TEST(OtlpVariablesTest, WrongHeadersAreRefusedAndNotShown) {
  for (const char* headers : {"secret", "=secret", "a b=secret", "a=1,secret", "a=secret%", "a=secret%4", "a=secret%zz",
                              "a=secret%0d%0aX:%20y"}) {
    const std::string message = Wrong({{"OTEL_EXPORTER_OTLP_HEADERS", headers}});
    EXPECT_THAT(message, HasSubstr("OTEL_EXPORTER_OTLP_HEADERS: ")) << headers;
    EXPECT_THAT(message, Not(HasSubstr("secret"))) << headers;
  }
}

TEST(OtlpVariablesTest, TheResourceSaysWhichServiceItIs) {
  EXPECT_THAT(Read({}, "http://c:1")->resource,
              UnorderedElementsAre(Pair("service.name", "farandole"), Pair("service.version", kVersion)));
  EXPECT_THAT(
      Read({{"OTEL_RESOURCE_ATTRIBUTES", "service.name=given,service.version=7,env=prod%2C1"}}, "http://c:1")->resource,
      UnorderedElementsAre(Pair("service.name", "given"), Pair("service.version", "7"), Pair("env", "prod,1")));
  EXPECT_THAT(
      Read({{"OTEL_RESOURCE_ATTRIBUTES", "service.name=given"}, {"OTEL_SERVICE_NAME", "own"}}, "http://c:1")->resource,
      UnorderedElementsAre(Pair("service.name", "own"), Pair("service.version", kVersion)));
  EXPECT_THAT(Wrong({{"OTEL_RESOURCE_ATTRIBUTES", "env"}}), HasSubstr("OTEL_RESOURCE_ATTRIBUTES: part 1 is no"));
}

TEST(OtlpVariablesTest, TheTimeoutIsInMilliseconds) {
  EXPECT_EQ(Read({}, "http://c:1")->timeout, absl::Seconds(10));
  EXPECT_EQ(Read({{"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"}}, "http://c:1")->timeout, absl::Milliseconds(2500));
  for (const char* timeout : {"0", "-1", "10s", "600001"})
    EXPECT_THAT(Wrong({{"OTEL_EXPORTER_OTLP_TIMEOUT", timeout}}), HasSubstr("OTEL_EXPORTER_OTLP_TIMEOUT: ")) << timeout;
}

TEST(OtlpVariablesTest, TheCertificateIsAFileInPem) {
  const std::string path = ::testing::TempDir() + "/otlp-ca.pem";
  const TestAuthority authority("collectors");
  std::ofstream(path) << authority.pem();
  EXPECT_EQ(Read({{"OTEL_EXPORTER_OTLP_CERTIFICATE", path}}, "https://c")->ca_pem, authority.pem());
  std::ofstream(path) << "nothing";
  EXPECT_THAT(Wrong({{"OTEL_EXPORTER_OTLP_CERTIFICATE", path}}), HasSubstr(path));
  EXPECT_THAT(Read({{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/none"}}, "https://c").status().message(), HasSubstr("/none"));
  EXPECT_THAT(Read({}, "https://c")->ca_pem, IsEmpty());
}

}  // namespace
}  // namespace farandole
