#include "base/retry/retry_delay.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(RetryDelayTest, AnErrorSaysWhenToAskAgain) {
  const absl::Status full = WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(1500));
  EXPECT_EQ(full.message(), "full");
  EXPECT_EQ(RetryDelayOf(full), absl::Milliseconds(1500));
  EXPECT_EQ(RetryDelayIn(ErrorDetailsOf(full)), absl::Milliseconds(1500));
}

TEST(RetryDelayTest, OtherErrorsAreFinal) {
  EXPECT_EQ(RetryDelayOf(absl::ResourceExhaustedError("too large")), std::nullopt);
  EXPECT_EQ(RetryDelayOf(absl::OkStatus()), std::nullopt);
  const std::string details = ErrorDetailsOf(absl::ResourceExhaustedError("too large"));
  EXPECT_EQ(RetryDelayIn(details), std::nullopt);
  EXPECT_EQ(ErrorDetailsOf(absl::NotFoundError("no such job")), "");
}

TEST(RetryDelayTest, WhatGrpcHasShedIsToldFromARefusalByItsDetailsAndWords) {
  constexpr char kReset[] = "Received RST_STREAM with error code 11";
  EXPECT_TRUE(IsShedByGrpc("", kReset));
  EXPECT_FALSE(IsShedByGrpc(ErrorDetailsOf(absl::ResourceExhaustedError(kReset)), kReset));
  EXPECT_FALSE(IsShedByGrpc("", "Received message larger than max (17825792 vs. 16777216)"));
  // As coordinators of before December 2026 tell it.
  EXPECT_FALSE(IsShedByGrpc("", "tenant a has 8 streams open, at most 8 may be"));
}

TEST(RetryDelayTest, ALongSentenceLeavesRoomForItselfInTheTrailers) {
  const std::string sentence(3000, 'x');
  EXPECT_EQ(ErrorDetailsOf(absl::ResourceExhaustedError(sentence)), "");
  EXPECT_FALSE(IsShedByGrpc("", sentence));
}

TEST(RetryDelayTest, DetailsThatCannotBeReadSayNothing) {
  EXPECT_EQ(RetryDelayIn(""), std::nullopt);
  EXPECT_EQ(RetryDelayIn("\xff\xff\xff"), std::nullopt);
  const std::string whole = ErrorDetailsOf(WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(2)));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_EQ(RetryDelayIn(whole.substr(0, bytes)), std::nullopt);
}

TEST(RetryDelayTest, NobodyIsToldToWaitForLong) {
  const auto told = [](absl::Duration delay) {
    return RetryDelayIn(ErrorDetailsOf(WithRetryDelay(absl::UnavailableError("away"), delay)));
  };
  EXPECT_EQ(told(absl::Hours(24)), absl::Minutes(1));
  EXPECT_EQ(told(-absl::Seconds(5)), absl::ZeroDuration());
}

// google.rpc.Status, RetryInfo and ErrorInfo, byte by byte: what clients of other languages read.
TEST(RetryDelayTest, TheDetailsAreGooglesOwn) {
  const std::string details = ErrorDetailsOf(WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(1)));
  const std::string expected = std::string("\x08\x08\x12\x04") + "full" + "\x1a\x30\x0a\x28" +
                               "type.googleapis.com/google.rpc.RetryInfo" + "\x12\x04\x0a\x02\x08\x01";
  EXPECT_EQ(details, expected);
  EXPECT_EQ(ErrorDetailsOf(absl::ResourceExhaustedError("full")),
            std::string("\x08\x08\x12\x04") + "full" + "\x1a\x4a\x0a\x28" + "type.googleapis.com/google.rpc.ErrorInfo" +
                "\x12\x1e\x0a\x0d" + "BOUND_REACHED" + "\x12\x0d" + "farandole.dev");
}

}  // namespace
}  // namespace farandole
