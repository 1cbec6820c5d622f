// Answers about what ranks do, and about tenants, as Protocol Buffers encode them: every field is read.
#include "farandole/client_findings.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "farandole/client_collectives.h"
#include "farandole/client_types.h"
#include "farandole/v1/access.pb.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/timeline.pb.h"
#include "gtest/gtest.h"

namespace farandole {
inline namespace sdk {
namespace client {
namespace {

using std::chrono::microseconds;

template <typename Message, typename Answer>
Answer Decode(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  const std::string bytes = message.SerializeAsString();
  Answer answer;
  Read(WireReader(bytes), &answer);
  return answer;
}

constexpr char kCollectives[] = R"(
  epoch: 2 size: 3 asked_unix_ms: 4000 is_over: true answered: 5 found: 6 left_out: 7 waited_us: 8 moving_us: 9
  costs {
    name: "grad" group: 10 op: OP_TYPE_SCATTER is_on_gpu: true count: 11 bytes: 12 waited_us: 13 moving_us: 14
    mean_wait_us: 1.5 mean_moving_us: 2.5 longest_wait_us: 15 longest_wait_rank: 16 wait_percent: 3.5
    algorithm_bytes_per_second: 4.5 bus_bytes_per_second: 5.5 compared: 17 last { rank: 18 times: 19 } last { rank: 20 }
    least_wait_rank: 21 least_wait_us: 6.5
  }
  silent { rank: 22 silence: "it is stopped" })";

TEST(ClientFindingsTest, EveryFieldOfCollectivesIsRead) {
  const auto read = Decode<v1::SurveyCollectivesResponse, Collectives>(kCollectives);
  EXPECT_EQ(read.epoch, 2u);
  EXPECT_EQ(read.size, 3u);
  EXPECT_EQ(read.asked, std::chrono::system_clock::from_time_t(4));
  EXPECT_TRUE(read.is_over);
  EXPECT_EQ(read.answered, 5u);
  EXPECT_EQ(read.found, 6u);
  EXPECT_EQ(read.left_out, 7u);
  EXPECT_EQ(read.waited, microseconds(8));
  EXPECT_EQ(read.moving, microseconds(9));
  ASSERT_EQ(read.silent.size(), 1u);
  EXPECT_EQ(read.silent[0].rank, 22);
  EXPECT_EQ(read.silent[0].silence, "it is stopped");
  ASSERT_EQ(read.costs.size(), 1u);
  const CollectiveCost& cost = read.costs[0];
  EXPECT_EQ(cost.name, "grad");
  EXPECT_EQ(cost.group, 10u);
  EXPECT_EQ(cost.operation, "scatter");
  EXPECT_TRUE(cost.is_on_gpu);
  EXPECT_EQ(cost.count, 11u);
  EXPECT_EQ(cost.bytes, 12u);
  EXPECT_EQ(cost.waited, microseconds(13));
  EXPECT_EQ(cost.moving, microseconds(14));
  EXPECT_EQ(cost.mean_wait.count(), 1.5);
  EXPECT_EQ(cost.mean_moving.count(), 2.5);
  EXPECT_EQ(cost.longest_wait, microseconds(15));
  EXPECT_EQ(cost.longest_wait_rank, 16);
  EXPECT_EQ(cost.wait_percent, 3.5);
  EXPECT_EQ(cost.algorithm_bytes_per_second, 4.5);
  EXPECT_EQ(cost.bus_bytes_per_second, 5.5);
  EXPECT_EQ(cost.compared, 17u);
  ASSERT_EQ(cost.last.size(), 2u);
  EXPECT_EQ(cost.last[0].rank, 18);
  EXPECT_EQ(cost.last[0].times, 19u);
  EXPECT_EQ(cost.last[1].rank, 20);
  EXPECT_EQ(cost.least_wait_rank, 21);
  EXPECT_EQ(cost.least_wait.count(), 6.5);
}

constexpr char kFindings[] = R"(
  sentence: "rank 1 is missing" epoch: 2 size: 3 stalled_unix_ms: 4000
  waits { name: "grad" op: OP_TYPE_REDUCESCATTER group: 5 ordinal: 6 waiting: 0 waiting: 2 missing: 1 waited_us: 1500 }
  stacks { ranks: 0 ranks: 300 frames { function: "load" file: "a.py" line: 7 } is_dominant: true
           native_frames { function: "read" module: "libc.so.6" } }
  ranks {
    rank: 1
    evidence {
      epoch: 2 about_stacks: "by signal" about_native_stacks: "by ptrace" settings: "A=b" settings: "C=d"
      flight {
        epoch: 2 rank: 0 size: 3 pid: 8 unrecorded: 9 names: "grad" names: "loss"
        records {
          name: 1 ordinal: 10 state: ENDED op: OP_TYPE_SCATTER dtype: DTYPE_F8E5M2 bytes: 11 group: 12 batch: 13
          is_on_gpu: true age_us: 14 started_after_us: 15 ended_after_us: 16
        }
        records { name: 2 }
      }
      threads {
        name: "MainThread" tid: 17 frames { function: "wait" } native_frames { function: "poll" } alike: 16
        why_no_native: "gone"
      }
      kernel_threads { tid: 18 name: "python" state: "sleeping" call: "poll" }
    }
  }
  ranks { rank: 2 silence: "it is stopped" })";

TEST(ClientFindingsTest, EveryFieldOfFindingsIsRead) {
  const auto read = Decode<v1::DiagnoseResponse, Findings>(kFindings);
  EXPECT_EQ(read.sentence, "rank 1 is missing");
  EXPECT_EQ(read.epoch, 2U);
  EXPECT_EQ(read.size, 3U);
  EXPECT_EQ(read.stalled, TimeOf(4000));
  ASSERT_EQ(read.waits.size(), 1U);
  EXPECT_EQ(read.waits[0].name, "grad");
  EXPECT_EQ(read.waits[0].operation, "reducescatter");
  EXPECT_EQ(read.waits[0].group, 5U);
  EXPECT_EQ(read.waits[0].ordinal, 6U);
  EXPECT_EQ(read.waits[0].waiting, (std::vector<int>{0, 2}));
  EXPECT_EQ(read.waits[0].missing, std::vector<int>{1});
  EXPECT_EQ(read.waits[0].waited, microseconds(1500));
  ASSERT_EQ(read.stacks.size(), 1U);
  EXPECT_EQ(read.stacks[0].ranks, (std::vector<int>{0, 300}));
  EXPECT_EQ(read.stacks[0].frames.at(0).function, "load");
  EXPECT_EQ(read.stacks[0].frames[0].file, "a.py");
  EXPECT_EQ(read.stacks[0].frames[0].line, 7U);
  EXPECT_TRUE(read.stacks[0].is_dominant);
  EXPECT_EQ(read.stacks[0].native_frames.at(0).function, "read");
  EXPECT_EQ(read.stacks[0].native_frames[0].module, "libc.so.6");
  ASSERT_EQ(read.ranks.size(), 2U);
  EXPECT_EQ(read.ranks[1].rank, 2);
  EXPECT_EQ(read.ranks[1].silence, "it is stopped");
  EXPECT_FALSE(read.ranks[1].evidence.has_value());
}

TEST(ClientFindingsTest, EveryFieldOfEvidenceIsRead) {
  const auto read = Decode<v1::DiagnoseResponse, Findings>(kFindings);
  const Evidence& evidence = read.ranks.at(0).evidence.value();
  EXPECT_EQ(evidence.epoch, 2U);
  EXPECT_EQ(evidence.about_stacks, "by signal");
  EXPECT_EQ(evidence.settings, (std::vector<std::string>{"A=b", "C=d"}));
  EXPECT_EQ(evidence.threads.at(0).name, "MainThread");
  EXPECT_EQ(evidence.threads[0].tid, 17U);
  EXPECT_EQ(evidence.threads[0].frames.at(0).function, "wait");
  EXPECT_EQ(evidence.threads[0].native_frames.at(0).function, "poll");
  EXPECT_EQ(evidence.threads[0].alike, 16U);
  EXPECT_EQ(evidence.threads[0].why_no_native, "gone");
  EXPECT_EQ(evidence.about_native_stacks, "by ptrace");
  EXPECT_EQ(evidence.kernel_threads.at(0).tid, 18U);
  EXPECT_EQ(evidence.kernel_threads[0].name, "python");
  EXPECT_EQ(evidence.kernel_threads[0].state, "sleeping");
  EXPECT_EQ(evidence.kernel_threads[0].call, "poll");
  const Flight& flight = evidence.flight.value();
  EXPECT_EQ(flight.epoch, 2U);
  EXPECT_EQ(flight.rank, 0);
  EXPECT_EQ(flight.size, 3U);
  EXPECT_EQ(flight.pid, 8);
  EXPECT_EQ(flight.unrecorded, 9U);
  ASSERT_EQ(flight.submissions.size(), 2U);
  const Submission& submission = flight.submissions[0];
  EXPECT_EQ(submission.name, "loss");
  EXPECT_EQ(submission.ordinal, 10U);
  EXPECT_STREQ(NameOf(submission.progress), "ended");
  EXPECT_EQ(submission.operation, "scatter");
  EXPECT_EQ(submission.dtype, "float8_e5m2");
  EXPECT_EQ(submission.bytes, 11U);
  EXPECT_EQ(submission.group, 12U);
  EXPECT_EQ(submission.batch, 13U);
  EXPECT_TRUE(submission.is_on_gpu);
  EXPECT_EQ(submission.age, microseconds(14));
  EXPECT_EQ(submission.started_after, microseconds(15));
  EXPECT_EQ(submission.ended_after, microseconds(16));
  EXPECT_EQ(flight.submissions[1].name, "") << "there is no such name";
  EXPECT_EQ(flight.submissions[1].operation, "allreduce") << "its number is 0, which is not sent";
}

TEST(ClientFindingsTest, ANewerCoordinatorMayKnowMore) {
  const std::string bytes = WireWriter().Number(3, 99).Number(4, 99).Number(5, 99).bytes();
  Submission read;
  size_t name = 0;
  Read(WireReader(bytes), &read, &name);
  EXPECT_STREQ(NameOf(read.progress), "unknown");
  EXPECT_EQ(read.operation, "unknown");
  EXPECT_EQ(read.dtype, "unknown");
}

TEST(ClientFindingsTest, EveryFieldOfATimelineIsRead) {
  const auto read = Decode<v1::GetTimelineResponse, Timeline>(R"(
      recording: 2 is_on: true started_unix_ms: 3000 next: 4 dropped: 5 forgotten: 6
      parts {
        number: 7 rank: 8 host_id: "host" hostname: "node-3"
        chunk { lines_zlib: "\000\377" lines_bytes: 9 events: 10 sent_ns: 11 ahead_ns: -12 error_ns: 13 is_last: true }
      })");
  EXPECT_EQ(read.recording, 2U);
  EXPECT_TRUE(read.is_on);
  EXPECT_EQ(read.started, TimeOf(3000));
  EXPECT_EQ(read.next, 4U);
  EXPECT_EQ(read.dropped, 5U);
  EXPECT_EQ(read.forgotten, 6U);
  ASSERT_EQ(read.parts.size(), 1U);
  const TimelinePart& part = read.parts[0];
  EXPECT_EQ(part.number, 7U);
  EXPECT_EQ(part.rank, 8);
  EXPECT_EQ(part.host_id, "host");
  EXPECT_EQ(part.hostname, "node-3");
  EXPECT_EQ(part.lines_zlib, std::string("\0\xff", 2));
  EXPECT_EQ(part.lines_bytes, 9U);
  EXPECT_EQ(part.events, 10U);
  EXPECT_EQ(part.sent_ns, 11);
  EXPECT_EQ(part.ahead_ns, -12);
  EXPECT_EQ(part.error_ns, 13U);
}

TEST(ClientFindingsTest, EveryFieldOfATenantIsRead) {
  const auto read = Decode<v1::ListTenantsResponse, std::vector<TenantRecord>>(R"(
      tenants {
        tenant: "vision" max_jobs: 1 max_workers: 2 created_unix_ms: 3000 tokens: 4 jobs: 5 workers: 6 store_bytes: 7
        max_store_bytes: 1099511627776 cohort: "research" weight: 9 borrow: 10 queued_jobs: 11 queued_workers: 12
      })");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "vision");
  EXPECT_EQ(read[0].max_jobs, 1U);
  EXPECT_EQ(read[0].max_workers, 2U);
  EXPECT_EQ(read[0].created, TimeOf(3000));
  EXPECT_EQ(read[0].tokens, 4U);
  EXPECT_EQ(read[0].jobs, 5U);
  EXPECT_EQ(read[0].workers, 6U);
  EXPECT_EQ(read[0].store_bytes, 7U);
  EXPECT_EQ(read[0].max_store_bytes, 1ULL << 40);
  EXPECT_EQ(read[0].cohort, "research");
  EXPECT_EQ(read[0].weight, 9U);
  EXPECT_EQ(read[0].borrow, 10U);
  EXPECT_EQ(read[0].queued_jobs, 11U);
  EXPECT_EQ(read[0].queued_workers, 12U);
}

TEST(ClientFindingsTest, AnEmptyCohortIsSaid) {
  v1::SetQuotaRequest quota;
  ASSERT_TRUE(quota.ParseFromString(WireWriter().Text(1, "vision").Always(2, 0).AlwaysText(4, "").bytes()));
  EXPECT_TRUE(quota.has_max_jobs() && quota.has_cohort() && !quota.has_weight());
}

}  // namespace
}  // namespace client
}  // namespace sdk
}  // namespace farandole
