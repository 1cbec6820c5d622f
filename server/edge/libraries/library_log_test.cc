#include "server/edge/libraries/library_log.h"

#include <string>

#include "base/testing/log_lines.h"
#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class LibraryLogTest : public ::testing::Test {
 protected:
  LibraryLogTest() {
    // As gRPC's first use has it.
    gpr_log_verbosity_init();
    TakeLibrariesLogs();
  }

  LogLines lines_;
};

TEST_F(LibraryLogTest, GrpcWritesFewLinesHoweverManyErrorsClientsCause) {
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "a stranger has sent %d", i);
  EXPECT_THAT(lines_.Take(), AllOf(SizeIs(kMostLibraryLines), Each(StartsWith("gRPC: a stranger has sent "))));
  TellLibrariesLogs();
  EXPECT_THAT(lines_.Take(), IsEmpty()) << "the others are told when the window is over";
}

TEST_F(LibraryLogTest, HandshakesThatFailAreCounted) {
  const uint64_t before = FailedHandshakes();
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: no TLS.");
  EXPECT_THAT(lines_.Take(), IsEmpty());
  EXPECT_EQ(FailedHandshakes() - before, 1000u);
}

TEST_F(LibraryLogTest, ProtobufWritesFewLinesAndNoneToStderr) {
  // Field 1 of a hello is a text; this is no UTF-8.
  const std::string wire("\x0a\x03\x0a\x01\xff", 5);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) {
    v1::WorkerMessage message;
    EXPECT_FALSE(message.ParseFromString(wire));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(lines_.Take(), AllOf(SizeIs(kMostLibraryLines), Each(HasSubstr("UTF-8"))));
}

}  // namespace
}  // namespace farandole
