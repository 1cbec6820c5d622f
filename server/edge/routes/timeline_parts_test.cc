#include "server/edge/routes/timeline_parts.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

// `next`: the number of the part that is to come.
v1::GetTimelineResponse Begin(uint64_t next, uint64_t recording = 1) {
  v1::GetTimelineResponse answer;
  answer.set_recording(recording);
  answer.set_next(next);
  return answer;
}

// One part, behind which there is another.
v1::GetTimelineResponse OnePart(uint64_t number, size_t packed_bytes, uint32_t lines_bytes) {
  v1::GetTimelineResponse answer = Begin(number + 1);
  v1::TimelinePart* const part = answer.add_parts();
  part->set_number(number);
  part->mutable_chunk()->set_lines_zlib(std::string(packed_bytes, 'x'));
  part->mutable_chunk()->set_lines_bytes(lines_bytes);
  return answer;
}

// Adds such parts until they are refused.
absl::Status Fill(size_t packed_bytes, uint32_t lines_bytes, size_t* added) {
  TimelineParts parts(Begin(std::numeric_limits<uint64_t>::max()));
  while (true) {
    const absl::Status status = parts.Add(OnePart(parts.parts().size() + 1, packed_bytes, lines_bytes));
    *added = parts.parts().size();
    if (!status.ok() || parts.IsWhole() || *added > 200'000) return status;
  }
}

TEST(TimelinePartsTest, BytesThatAreKeptCountWhateverTheWorkerClaims) {
  size_t added = 0;
  const absl::Status status = Fill(1 << 20, 0, &added);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 33554432 bytes"));
  EXPECT_EQ(added, 31u);
}

TEST(TimelinePartsTest, BytesThatAreClaimedCountToo) {
  size_t added = 0;
  EXPECT_EQ(Fill(1, 8 << 20, &added).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(added, 3u);
}

TEST(TimelinePartsTest, PartsWithNothingInThemAreBoundedAsWell) {
  size_t added = 0;
  EXPECT_EQ(Fill(0, 0, &added).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(added, (32u << 20) / 256);
}

TEST(TimelinePartsTest, PartsThatCameAfterTheBeginningAreNotFetched) {
  TimelineParts parts(Begin(3));
  ASSERT_TRUE(parts.Add(OnePart(1, 10, 100)).ok());
  EXPECT_FALSE(parts.IsWhole());
  EXPECT_EQ(parts.next(), 2u);
  v1::GetTimelineResponse last = OnePart(2, 10, 100);
  *last.add_parts() = OnePart(3, 10, 100).parts(0);
  last.set_next(4);
  last.set_forgotten(7);
  ASSERT_TRUE(parts.Add(std::move(last)).ok());
  EXPECT_TRUE(parts.IsWhole());
  EXPECT_EQ(parts.bytes(), 2 * (256u + 10 + 100)) << "the last one is not paid for";
  ASSERT_EQ(parts.parts().size(), 2u);
  EXPECT_EQ(parts.parts()[1].number(), 2u);
  EXPECT_EQ(parts.about().forgotten(), 7u);
}

TEST(TimelinePartsTest, ATimelineWithoutPartsIsWholeWithTheFirstAnswer) {
  TimelineParts parts(Begin(1));
  ASSERT_TRUE(parts.Add(Begin(0)).ok());
  EXPECT_TRUE(parts.IsWhole());
}

TEST(TimelinePartsTest, AnotherRecordingIsRefused) {
  TimelineParts parts(Begin(3));
  const absl::Status status = parts.Add(Begin(0, 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "timeline 2 has replaced timeline 1 meanwhile");
}

}  // namespace
}  // namespace farandole
