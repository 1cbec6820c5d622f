#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/measure/flight_memory.h"
#include "worker/measure/flight_reader.h"
#include "worker/measure/flight_recorder.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

std::vector<std::string> Names(const v1::FlightRecords& records) {
  std::vector<std::string> names;
  for (const v1::FlightRecord& record : records.records()) names.push_back(records.names(record.name()));
  return names;
}

// A submission of four floats under `name`.
FlightRecord* Submit(FlightRecorder* recorder, const std::string& name, FlightRecorder::NameMark* mark,
                     int64_t now_ns) {
  FlightRecord* const record = recorder->Begin(mark, [&] { recorder->WriteName(name, /*group=*/0, /*slot=*/0, mark); });
  record->dtype = static_cast<uint8_t>(DType::kF32);
  record->count = 4;
  record->submitted_ns = now_ns;
  recorder->Submit(record);
  return record;
}

class FlightTest : public testing::Test {
 protected:
  FlightRecord* Submit(const std::string& name, FlightRecorder::NameMark* mark, int64_t now_ns) {
    return farandole::Submit(&recorder_, name, mark, now_ns);
  }
  void SubmitAndFinish(const std::string& name, FlightRecorder::NameMark* mark, int64_t now_ns) {
    FlightRecorder::End(Submit(name, mark, now_ns), FlightState::kFinished, now_ns);
  }

  std::unique_ptr<FlightMemory> memory_ = *FlightMemory::Create();
  FlightRecorder recorder_{memory_->page(), 3, 4, 7};
};

TEST_F(FlightTest, ACollectiveIsRecordedFromItsSubmissionToItsEnd) {
  FlightRecorder::NameMark name;
  FlightRecord* const first = Submit("grad.17", &name, 10 * kMs);
  recorder_.Assign(name, 5);
  FlightRecorder::Start(first, 412, 12 * kMs);
  FlightRecorder::End(first, FlightState::kFinished, 15 * kMs);
  Submit("grad.17", &name, 20 * kMs);
  const v1::FlightRecords read = ReadFlight(*memory_->page(), 256, 50 * kMs);
  EXPECT_EQ(read.rank(), 3u);
  EXPECT_EQ(read.size(), 4u);
  EXPECT_EQ(read.epoch(), 7u);
  EXPECT_EQ(read.pid(), getpid());
  ASSERT_EQ(read.records_size(), 2);
  EXPECT_THAT(read.names(), ElementsAre("grad.17"));
  const v1::FlightRecord& one = read.records(0);
  EXPECT_EQ(one.state(), v1::FlightRecord::FINISHED);
  EXPECT_EQ(one.ordinal(), 1u);
  EXPECT_EQ(one.slot(), 5u);
  EXPECT_EQ(one.batch(), 412u);
  EXPECT_EQ(one.bytes(), 16u);
  EXPECT_EQ(one.age_us(), 40'000u);
  EXPECT_EQ(one.started_after_us(), 2'000u);
  EXPECT_EQ(one.ended_after_us(), 5'000u);
  EXPECT_EQ(read.records(1).state(), v1::FlightRecord::SUBMITTED);
  EXPECT_EQ(read.records(1).ordinal(), 2u);
  EXPECT_EQ(read.records(1).batch(), 0u);
}

TEST_F(FlightTest, TheLatestAreShownAndBeforeThemWhatIsNotFinished) {
  FlightRecorder::NameMark waits, others;
  Submit("waits", &waits, 1);
  for (int i = 0; i < 500; ++i) SubmitAndFinish("others", &others, 2);
  const v1::FlightRecords read = ReadFlight(*memory_->page(), 2, 4);
  EXPECT_THAT(Names(read), ElementsAre("waits", "others", "others"));
  EXPECT_EQ(read.records(2).ordinal(), 500u);
}

TEST_F(FlightTest, WhatIsNotFinishedKeepsItsRecordHoweverManyComeAfterIt) {
  FlightRecorder::NameMark waits, others;
  FlightRecord* const old = Submit("waits", &waits, 1);
  for (uint64_t i = 0; i < 3 * FlightPage::kRecords; ++i) SubmitAndFinish("others", &others, 2);
  v1::FlightRecords read = ReadFlight(*memory_->page(), FlightPage::kRecords, 4);
  EXPECT_EQ(Names(read)[0], "waits");
  EXPECT_EQ(read.records(0).state(), v1::FlightRecord::SUBMITTED);
  FlightRecorder::End(old, FlightState::kFailed, 5);
  read = ReadFlight(*memory_->page(), FlightPage::kRecords, 6);
  EXPECT_EQ(read.records(0).state(), v1::FlightRecord::FAILED);
  EXPECT_EQ(read.unrecorded(), 0u);
}

TEST_F(FlightTest, MoreOpenOnesThanThereAreRecordsAreCounted) {
  FlightRecorder::NameMark name;
  std::vector<FlightRecord*> records;
  for (uint64_t i = 0; i < FlightPage::kRecords + 10; ++i) records.push_back(Submit("t", &name, 1));
  EXPECT_EQ(ReadFlight(*memory_->page(), 256, 4).unrecorded(), 10u);
  for (FlightRecord* record : records) FlightRecorder::End(record, FlightState::kFinished, 2);
  for (uint64_t i = 0; i < FlightPage::kRecords; ++i) SubmitAndFinish("t", &name, 3);
  const v1::FlightRecords read = ReadFlight(*memory_->page(), 1, 4);
  EXPECT_EQ(read.unrecorded(), 10u);
  EXPECT_EQ(read.records(0).ordinal(), 2 * FlightPage::kRecords + 10);
}

TEST_F(FlightTest, ARecordThatItsWriterDiedOverIsNotRead) {
  FlightRecorder::NameMark name;
  for (uint64_t i = 0; i < FlightPage::kRecords; ++i) SubmitAndFinish("t", &name, 1);
  FlightPage& page = *memory_->page();
  page.records[page.header.next.load() / sizeof(FlightRecord)].ordinal = 4711;  // as it died
  const v1::FlightRecords read = ReadFlight(page, FlightPage::kRecords, 2);
  EXPECT_EQ(read.records_size(), static_cast<int>(FlightPage::kRecords) - 1);
  for (const v1::FlightRecord& record : read.records()) EXPECT_NE(record.ordinal(), 4711u);
}

TEST_F(FlightTest, ANameStaysReadableHoweverManyComeAfterIt) {
  FlightRecorder::NameMark kept;
  for (int i = 0; i < 5000; ++i) {
    FlightRecorder::NameMark fresh;
    SubmitAndFinish("kept", &kept, i);
    SubmitAndFinish(absl::StrCat("fresh.", i), &fresh, i);
    const v1::FlightRecords read = ReadFlight(*memory_->page(), 2, i);
    ASSERT_THAT(Names(read), ElementsAre("kept", absl::StrCat("fresh.", i)));
  }
  EXPECT_EQ(ReadFlight(*memory_->page(), FlightPage::kRecords, 5000).records_size(),
            static_cast<int>(FlightPage::kRecords) - 1);
}

TEST_F(FlightTest, OfALongNameTheMiddleIsLeftOut) {
  FlightRecorder::NameMark name;
  Submit(absl::StrCat("begin", std::string(400, 'x'), "end"), &name, 1);
  const std::string shown = Names(ReadFlight(*memory_->page(), 1, 2))[0];
  EXPECT_EQ(shown.size(), FlightName::kMostBytes);
  EXPECT_EQ(shown.substr(0, 6), "beginx");
  EXPECT_EQ(shown.substr(shown.size() - 4), "xend");
}

TEST_F(FlightTest, TheNextEpochBeginsWithoutTheRecordsOfTheLast) {
  FlightRecorder::NameMark name;
  Submit("old", &name, 1);
  FlightRecorder next(memory_->page(), 1, 2, 8);
  FlightRecorder::NameMark other;
  farandole::Submit(&next, "new", &other, 2);
  const v1::FlightRecords read = ReadFlight(*memory_->page(), 256, 3);
  EXPECT_EQ(read.epoch(), 8u);
  EXPECT_THAT(Names(read), ElementsAre("new"));
}

TEST(FlightMemoryTest, TheLauncherReadsItAfterItsWorkerWasKilled) {
  const std::unique_ptr<FlightMemory> launchers = *FlightMemory::Create();
  EXPECT_FALSE(ReadFlight(*launchers->page(), 256, 1).has_rank());
  const std::string path = launchers->path();
  const pid_t pid = fork();
  if (pid == 0) {
    const std::unique_ptr<FlightMemory> own = FlightMemory::Open(path);
    FlightRecorder recorder(own->page(), 1, 2, 1);
    FlightRecorder::NameMark name;
    Submit(&recorder, "last words", &name, 1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  const v1::FlightRecords read = ReadFlight(*launchers->page(), 256, 1);
  EXPECT_EQ(read.rank(), 1u);
  EXPECT_EQ(read.pid(), pid);
  EXPECT_THAT(Names(read), ElementsAre("last words"));
}

TEST(FlightMemoryTest, AWorkerCannotMakeItSmaller) {
  const std::unique_ptr<FlightMemory> launchers = *FlightMemory::Create();
  const int file = open(launchers->path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_EQ(errno, EPERM);
  close(file);
}

TEST(FlightMemoryTest, WithoutALauncherTheMemoryIsTheWorkersOwn) {
  for (const char* path : {"", "/proc/1/fd/no", "/dev/null"}) {
    const std::unique_ptr<FlightMemory> own = FlightMemory::Open(path);
    ASSERT_NE(own->page(), nullptr) << path;
    FlightRecorder recorder(own->page(), 0, 1, 1);
    FlightRecorder::NameMark name;
    Submit(&recorder, "t", &name, 1);
    EXPECT_EQ(Names(ReadFlight(*own->page(), 1, 2)), std::vector<std::string>{"t"}) << path;
  }
}

}  // namespace
}  // namespace farandole
