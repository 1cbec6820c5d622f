// Messages as Protocol Buffers encode them, read and written without that library, and held against it.
#include "farandole/wire.h"

#include <string>

#include "farandole/client_types.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "gtest/gtest.h"

namespace farandole {
inline namespace sdk {
namespace client {
namespace {

// Every field set.
v1::GetJobResponse Full() {
  v1::GetJobResponse full;
  v1::JobSummary& job = *full.mutable_summary();
  job.set_tenant("vision");
  job.set_job("mnist");
  job.set_state(v1::JOB_STATE_FAILED);
  job.set_reason("rank 1 died");
  job.set_epoch(1ULL << 40);
  job.set_size(2);
  job.set_wanted_size(300);
  job.set_created_unix_ms(1'700'000'000'123);
  job.set_batches_per_second(0.5);
  job.set_steps_per_second(0.25);
  job.set_last_stall("rank 0 waits");
  job.set_last_stall_unix_ms(7);
  job.mutable_elastic()->set_min_size(1);
  job.mutable_elastic()->set_max_size(128);
  job.set_waiting(3);
  job.set_resets(4);
  job.mutable_gpus()->set_gpus(8);
  job.mutable_gpus()->set_telling_gpus(7);
  job.mutable_gpus()->set_busy_percent(99.5);
  job.mutable_gpus()->set_memory_used_bytes(1ULL << 35);
  job.mutable_gpus()->set_memory_total_bytes(1ULL << 36);
  v1::WorkerStatus& worker = *full.add_workers();
  worker.set_rank(1);
  worker.mutable_member()->set_incarnation("0a");
  worker.mutable_member()->set_host_id("host");
  worker.mutable_member()->set_hostname("node-3");
  worker.mutable_member()->set_pid(4711);
  worker.mutable_member()->add_endpoints("tcp:1");
  worker.set_silence_ms(1500);
  worker.set_batches(9);
  worker.set_state("lost: it died");
  worker.mutable_gpu()->set_name("H100");
  worker.mutable_gpu()->set_busy_percent(0);
  worker.mutable_gpu()->set_memory_used_bytes(5);
  worker.mutable_gpu()->set_memory_total_bytes(6);
  worker.set_missed(true);
  full.add_workers()->mutable_gpu()->set_name("a part");
  v1::HistoryEntry& entry = *full.add_history();
  entry.set_at_unix_ms(1);
  entry.set_sentence("it began");
  full.set_negotiation_messages(12);
  v1::BarredHost& host = *full.add_barred_hosts();
  host.set_hostname("node-4");
  host.set_failures(2);
  host.set_barred_ms(250);
  return full;
}

Details Decode(const std::string& bytes) {
  Details details;
  Read(WireReader(bytes), &details);
  return details;
}

TEST(WireTest, EveryFieldOfAJobIsRead) {
  const Details read = Decode(Full().SerializeAsString());
  const Summary& job = read.summary;
  EXPECT_EQ(job.tenant, "vision");
  EXPECT_EQ(job.name, "mnist");
  EXPECT_STREQ(NameOf(job.state), "failed");
  EXPECT_EQ(job.reason, "rank 1 died");
  EXPECT_EQ(job.epoch, 1ULL << 40);
  EXPECT_EQ(job.size, 2U);
  EXPECT_EQ(job.wanted_size, 300U);
  EXPECT_EQ(job.created, TimeOf(1'700'000'000'123));
  EXPECT_EQ(job.batches_per_second, 0.5);
  EXPECT_EQ(job.steps_per_second, 0.25);
  EXPECT_EQ(job.last_stall, "rank 0 waits");
  EXPECT_EQ(job.last_stall_at, TimeOf(7));
  EXPECT_TRUE(job.HasEnded());
  EXPECT_EQ(job.Blocker(), "");
  EXPECT_EQ(job.elastic->min_size, 1U);
  EXPECT_EQ(job.elastic->max_size, 128U);
  EXPECT_EQ(job.elastic->waiting, 3U);
  EXPECT_EQ(job.elastic->resets, 4U);
  EXPECT_EQ(job.gpus->gpus, 8U);
  EXPECT_EQ(job.gpus->telling_gpus, 7U);
  EXPECT_EQ(job.gpus->busy_percent, 99.5);
  EXPECT_EQ(job.gpus->memory_used_bytes, 1ULL << 35);
  EXPECT_EQ(job.gpus->memory_total_bytes, 1ULL << 36);
  EXPECT_EQ(read.history.at(0).at, TimeOf(1));
  EXPECT_EQ(read.history[0].sentence, "it began");
  EXPECT_EQ(read.negotiation_messages, 12U);
  EXPECT_EQ(read.barred_hosts.at(0).hostname, "node-4");
  EXPECT_EQ(read.barred_hosts[0].failures, 2U);
  EXPECT_EQ(read.barred_hosts[0].barred, std::chrono::milliseconds(250));
}

TEST(WireTest, EveryFieldOfAWorkerIsRead) {
  const Details read = Decode(Full().SerializeAsString());
  ASSERT_EQ(read.workers.size(), 2U);
  const Worker& worker = read.workers[0];
  EXPECT_EQ(worker.rank, 1U);
  EXPECT_EQ(worker.incarnation, "0a");
  EXPECT_EQ(worker.host_id, "host");
  EXPECT_EQ(worker.hostname, "node-3");
  EXPECT_EQ(worker.pid, 4711);
  EXPECT_EQ(worker.silence, std::chrono::milliseconds(1500));
  EXPECT_EQ(worker.batches, 9U);
  EXPECT_EQ(worker.state, "lost: it died");
  EXPECT_TRUE(worker.missed);
  EXPECT_EQ(worker.gpu->name, "H100");
  EXPECT_EQ(worker.gpu->busy_percent, 0U) << "it tells that it idles";
  EXPECT_EQ(worker.gpu->memory_used_bytes, 5U);
  EXPECT_EQ(worker.gpu->memory_total_bytes, 6U);
  EXPECT_FALSE(read.workers[1].gpu->busy_percent.has_value()) << "it does not tell";
}

TEST(WireTest, EveryFieldOfACheckpointIsRead) {
  v1::ListCheckpointsResponse listed;
  v1::Checkpoint& row = *listed.add_checkpoints();
  row.set_name("net");
  row.set_step(7);
  row.set_token(8);
  row.set_path("/net.pt");
  row.set_size_bytes(9);
  row.set_sha256(std::string("\x00\xff\x10", 3));
  row.set_committed_unix_ms(10);
  row.set_epoch(11);
  row.set_rank(12);
  const std::string bytes = listed.SerializeAsString();
  std::vector<Checkpoint> read;
  Read(WireReader(bytes), &read);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "net");
  EXPECT_EQ(read[0].step, 7);
  EXPECT_EQ(read[0].fencing_token, 8U);
  EXPECT_EQ(read[0].path, "/net.pt");
  EXPECT_EQ(read[0].size_bytes, 9U);
  EXPECT_EQ(read[0].sha256, "00ff10");
  EXPECT_EQ(read[0].committed, TimeOf(10));
  EXPECT_EQ(read[0].epoch, 11U);
  EXPECT_EQ(read[0].rank, 12U);
}

TEST(WireTest, MessagesThatAreCutAreNone) {
  const std::string whole = Full().SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    WireReader reader(std::string_view(whole).substr(0, size));
    while (reader.Next()) continue;
    Decode(whole.substr(0, size));
  }
  WireReader cut(
      std::string_view("\x0a\x05"
                       "ab",
                       4));
  EXPECT_FALSE(cut.Next());
  EXPECT_FALSE(cut.is_message());
  WireReader endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_FALSE(endless.Next());
  EXPECT_FALSE(endless.is_message());
}

TEST(WireTest, WhatIsWrittenProtobufReads) {
  v1::DrainWorkersRequest drain;
  ASSERT_TRUE(drain.ParseFromString(WireWriter().Always(3, 0).Text(1, "").Text(2, "mnist").bytes()));
  EXPECT_EQ(drain.what_case(), v1::DrainWorkersRequest::kRank) << "rank 0 is said, although it is 0";
  EXPECT_EQ(drain.job(), "mnist");
  v1::CreateTenantRequest tenant;
  const std::string name(300, 'x');
  ASSERT_TRUE(tenant.ParseFromString(WireWriter().Text(1, name).Number(2, 0).Number(3, 4'000'000'000).bytes()));
  EXPECT_EQ(tenant.tenant(), name);
  EXPECT_EQ(tenant.max_workers(), 4'000'000'000U);
  v1::DrainWorkersResponse answer;
  for (const uint32_t rank : {0, 1, 200}) answer.add_ranks(rank);
  const std::string bytes = answer.SerializeAsString();
  WireReader reader(bytes);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.Numbers<int>(), (std::vector<int>{0, 1, 200}));
}

}  // namespace
}  // namespace client
}  // namespace sdk
}  // namespace farandole
