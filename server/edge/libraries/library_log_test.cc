#include "server/edge/libraries/library_log.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Lines : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    lines_.emplace_back(line.payload.data(), line.payload.size());
  }
  void flush_() override {}

  std::vector<std::string> lines_;
};

class LibraryLogTest : public ::testing::Test {
 protected:
  LibraryLogTest() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", lines_));
    // As gRPC's first use has it.
    gpr_log_verbosity_init();
    TakeLibrariesLogs();
  }
  ~LibraryLogTest() override { spdlog::set_default_logger(before_); }

  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();  // shared by the logger and the test
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(LibraryLogTest, GrpcWritesFewLinesHoweverManyErrorsClientsCause) {
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "a stranger has sent %d", i);
  EXPECT_THAT(lines_->Take(), AllOf(SizeIs(kMostLibraryLines), Each(StartsWith("gRPC: a stranger has sent "))));
  TellLibrariesLogs();
  EXPECT_THAT(lines_->Take(), IsEmpty()) << "the others are told when the window is over";
}

TEST_F(LibraryLogTest, HandshakesThatFailAreCounted) {
  const uint64_t before = FailedHandshakes();
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: no TLS.");
  EXPECT_THAT(lines_->Take(), IsEmpty());
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
  EXPECT_THAT(lines_->Take(), AllOf(SizeIs(kMostLibraryLines), Each(HasSubstr("UTF-8"))));
}

}  // namespace
}  // namespace farandole
