// `farandole job` against a coordinator in this process, by its address and token file. State directories need a
// coordinator of another process: run_command_test and tests/integration have those.
#include "deploy/cli/job_command.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"

namespace farandole {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class JobCommandTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    Start();
    command_.source.coordinator = coordinator_->address();
    command_.source.token_file = coordinator_->token_file();
  }

  int List() { return Finish(ListJobs(command_, absl::Now(), out_, err_)); }
  int Show(const std::string& name) {
    command_.job = name;
    return Finish(ShowJob(command_, absl::Now(), out_, err_));
  }
  int Abort(const std::string& name, const std::string& reason) {
    command_.job = name;
    command_.reason = reason;
    return Finish(AbortJob(command_, out_, err_));
  }
  int Delete(const std::string& name) {
    command_.job = name;
    return Finish(DeleteJob(command_, out_, err_));
  }
  int Drain(const std::string& name, uint32_t rank) {
    command_.job = name;
    command_.rank = rank;
    command_.reason = "its fan is loud";
    return Finish(DrainJob(command_, out_, err_));
  }
  int Request(const std::string& name) {
    command_.job = name;
    return Finish(RequestCheckpoint(command_, out_, err_));
  }
  json Json() const { return json::parse(printed_); }

  // A tenant whose token is not the coordinator's own.
  std::string MakeTenant(const std::string& name) const {
    v1::CreateTenantRequest create;
    create.set_tenant(name);
    create.set_idempotency_key(name);
    return Client().CreateTenant(create)->token();
  }

  JobCommandOptions command_;
  std::string printed_;
  std::string said_;

 private:
  int Finish(int code) {
    printed_ = out_.str();
    said_ = err_.str();
    out_.str("");
    err_.str("");
    return code;
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(JobCommandTest, WithoutJobsTheListSaysSo) {
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(printed_, "no jobs\n");
  command_.json = true;
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(Json(), json::array());
}

TEST_F(JobCommandTest, AJobIsListedWithStateAndReason) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(List(), 0);
  EXPECT_THAT(printed_, HasSubstr("JOB    STATE    WORKERS  STEPS   RATE  AGE  REASON\n"));
  EXPECT_THAT(printed_,
              HasSubstr("mnist  running        2      -  0.0/s  0 s  epoch 1 formed: all 2 workers joined\n"));
  EXPECT_THAT(said_, IsEmpty());
  for (int beat = 1; beat <= 2; ++beat) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_epoch(1);
    message.mutable_heartbeat()->add_pulses()->set_beat(static_cast<uint64_t>(beat));
    message.mutable_heartbeat()->mutable_measures()->set_interval_us(500'000);
    message.mutable_heartbeat()->mutable_measures()->add_steps(3);
    ASSERT_TRUE(workers[0]->Send(message));
  }
  command_.json = true;
  EXPECT_EQ(List(), 0);
  for (const absl::Time limit = absl::Now() + absl::Seconds(10); Json()[0]["steps_per_second"].is_null();) {
    ASSERT_LT(absl::Now(), limit);
    ASSERT_EQ(List(), 0);
  }
  EXPECT_EQ(Json()[0]["steps_per_second"], 6);
  command_.json = false;
  EXPECT_EQ(List(), 0);
  EXPECT_THAT(printed_, HasSubstr("mnist  running        2  6.0/s  "));
}

TEST_F(JobCommandTest, GpusAreShownOfWhoTellsOfThem) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_THAT(printed_, Not(HasSubstr("GPU")));
  v1::WorkerMessage message;
  message.mutable_gpu_status()->set_epoch(1);
  v1::Gpu* gpu = message.mutable_gpu_status()->mutable_gpu();
  gpu->set_name("NVIDIA H100");
  gpu->set_busy_percent(73);
  gpu->set_memory_used_bytes(uint64_t{41} << 30);
  gpu->set_memory_total_bytes(uint64_t{80} << 30);
  ASSERT_TRUE(workers[1]->Send(message));
  command_.json = true;
  for (const absl::Time limit = absl::Now() + absl::Seconds(10); absl::Now() < limit;) {
    EXPECT_EQ(Show("mnist"), 0);
    if (Json().contains("gpus")) break;
  }
  EXPECT_EQ(Json()["gpus"]["gpus"], 1);
  EXPECT_EQ(Json()["gpus"]["busy_percent"], 73);
  EXPECT_FALSE(Json()["workers"][0].contains("gpu"));
  EXPECT_EQ(Json()["workers"][1]["gpu"]["name"], "NVIDIA H100");
  command_.json = false;
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_THAT(printed_, ContainsRegex("\ngpus         1, 73 % busy, 41.* of 80.* in use\n"));
  EXPECT_THAT(printed_, ContainsRegex("live +73 % busy, 41.* of 80"));
}

TEST_F(JobCommandTest, AJobIsShownWithItsRanksAndHistory) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_THAT(printed_, HasSubstr("job          mnist of tenant default, at coordinator " + coordinator_->address()));
  EXPECT_THAT(printed_, HasSubstr("state        running: epoch 1 formed: all 2 workers joined\n"));
  EXPECT_THAT(printed_, HasSubstr("last stall   none in this epoch\n"));
  EXPECT_THAT(printed_, HasSubstr("RANK  HOST"));
  EXPECT_THAT(printed_, HasSubstr("history\n"));
  command_.json = true;
  EXPECT_EQ(Show("mnist"), 0);
  const json shown = Json();
  EXPECT_EQ(shown["state"], "running");
  EXPECT_EQ(shown["coordinator"], coordinator_->address());
  ASSERT_EQ(shown["workers"].size(), 2u);
  EXPECT_EQ(shown["workers"][1]["rank"], 1);
  EXPECT_EQ(shown["workers"][1]["state"], "live");
  EXPECT_GT(shown["workers"][1]["pid"], 0);
  EXPECT_EQ(shown["checkpoints"], json::array());
  EXPECT_FALSE(shown["history"].empty());
}

TEST_F(JobCommandTest, AnUnknownJobNamesTheNearest) {
  const auto workers = Train("mnist", 1);
  for (const bool is_abort : {false, true}) {
    EXPECT_EQ(is_abort ? Abort("mnits", "why") : Show("mnits"), 1);
    EXPECT_EQ(said_, "farandole job: there is no job mnits at " + coordinator_->address() + "; did you mean mnist?\n");
    EXPECT_THAT(printed_, IsEmpty());
  }
}

TEST_F(JobCommandTest, AnAbortReachesTheWorkersWithItsReason) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(Abort("mnist", "the disk is needed"), 0) << said_;
  EXPECT_EQ(printed_, "job mnist was ended: the disk is needed\n");
  const absl::StatusOr<v1::CoordinatorMessage> told =
      workers[1]->Await([](const v1::CoordinatorMessage& message) { return message.has_epoch_ended(); });
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(told->epoch_ended().reason(), HasSubstr("the disk is needed"));
  EXPECT_EQ(Abort("mnist", "again"), 1);
  EXPECT_THAT(said_, AllOf(HasSubstr("job mnist has ended already (failed: "), HasSubstr("the disk is needed")));
}

TEST_F(JobCommandTest, AProgramIsAskedForACheckpoint) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(Request("mnist"), 0) << said_;
  EXPECT_EQ(printed_,
            "job mnist: its program is asked for a checkpoint; it is told when it calls checkpoint_requested()\n");
  const absl::StatusOr<v1::CoordinatorMessage> wanted =
      workers[0]->Await([](const v1::CoordinatorMessage& message) { return message.has_checkpoint_wanted(); });
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(wanted->checkpoint_wanted().serial(), 1u);
  EXPECT_EQ(Request("mnist"), 0);
  EXPECT_THAT(printed_, HasSubstr("job mnist: a checkpoint was asked for already, by token "));
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_THAT(printed_,
              ContainsRegex("checkpoint   asked for .* ago by token .*; not told yet: its ranks have not all called "
                            "checkpoint_requested\\(\\) since\n"));
  command_.waits = true;
  command_.timeout_seconds = 0.1;
  EXPECT_EQ(Request("mnist"), 1);
  EXPECT_THAT(
      said_, HasSubstr("job mnist: its program does not know of the request after 0 s: its ranks have not all called"));
  v1::WorkerMessage told;
  told.mutable_checkpoint_told()->set_epoch(1);
  told.mutable_checkpoint_told()->set_serial(1);
  told.mutable_checkpoint_told()->set_failure("no space left on device");
  ASSERT_TRUE(workers[0]->Send(told));
  command_.json = true;
  for (const absl::Time limit = absl::Now() + absl::Seconds(10); absl::Now() < limit;) {
    EXPECT_EQ(Show("mnist"), 0);
    if (Json()["wanted_checkpoint"]["state"] == "failed") break;
  }
  EXPECT_EQ(Json()["wanted_checkpoint"]["failure"], "the program could not write it: no space left on device");
  EXPECT_EQ(Json()["wanted_checkpoint"]["times"], 3);
  EXPECT_EQ(Abort("mnist", "enough"), 0);
  EXPECT_EQ(Request("mnist"), 1);
  EXPECT_THAT(said_, HasSubstr("job mnist has ended already (failed: "));
}

TEST_F(JobCommandTest, WorkersOfAnElasticJobAreDrainedAndOfAnotherNot) {
  const auto workers = Train("mnist", 2);
  EXPECT_EQ(Drain("mnist", 1), 1);
  EXPECT_THAT(said_, HasSubstr("job mnist is not elastic: its workers leave it together"));
  v1::Elastic elastic;
  elastic.set_min_size(1);
  elastic.set_max_size(2);
  elastic.set_shortage_limit_ms(60'000);
  std::vector<std::unique_ptr<TestWorker>> members;
  for (uint32_t i = 0; i < 2; ++i) {
    members.push_back(Worker("bert", i));
    members.back()->SetElastic(elastic);
    ASSERT_TRUE(members.back()->Join(2).ok());
    members.back()->Attach();
  }
  ASSERT_TRUE(members[0]->AwaitEpoch().ok());
  EXPECT_EQ(Drain("bert", 7), 1);
  EXPECT_THAT(said_, HasSubstr("epoch 1 of job bert has no rank 7; it has ranks 0,1"));
  EXPECT_EQ(Drain("bert", 1), 0) << said_;
  EXPECT_EQ(printed_, "job bert: rank 1 leaves at the program's next commit\n");
  EXPECT_EQ(Show("bert"), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("1 to 2 possible, 0 waiting; 0 epochs lost"), HasSubstr("draining")));
  EXPECT_EQ(Abort("bert", "enough"), 0);
  EXPECT_EQ(Drain("bert", 1), 1);
  EXPECT_THAT(said_,
              AllOf(testing::StartsWith("farandole drain: "), HasSubstr("job bert has ended already (failed: ")));
}

TEST_F(JobCommandTest, ATenantSeesAndEndsItsOwnJobsAsItsTokensRoleSays) {
  const auto ours = Train("mnist", 1);
  const std::string token = MakeTenant("other");
  const auto theirs = Train("resnet", 1, token);
  EXPECT_EQ(List(), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("TENANT"), HasSubstr("other    resnet"), HasSubstr("default  mnist")));
  const std::string token_file = options_.state_dir + "/other-token";
  std::ofstream(token_file) << token;
  command_.source.token_file = token_file;
  EXPECT_EQ(List(), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("resnet"), Not(HasSubstr("mnist")), Not(HasSubstr("TENANT"))));
  EXPECT_EQ(Show("mnist"), 1);
  command_.source.token_file = options_.state_dir + "/viewer-token";
  v1::CreateTokenRequest viewer;
  viewer.set_role(v1::VIEWER);
  viewer.set_idempotency_key("viewer");
  std::ofstream(command_.source.token_file) << TestClient(coordinator_->address(), token).CreateToken(viewer)->token();
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(Abort("resnet", "why"), 1);
  EXPECT_THAT(said_, HasSubstr("refused to end job resnet: token "));
  EXPECT_THAT(said_,
              HasSubstr("(viewer of tenant other) may not end jobs, drain their workers or ask them for checkpoints"));
  command_.source.token_file = token_file;
  EXPECT_EQ(Abort("resnet", "why"), 0) << said_;
}

TEST_F(JobCommandTest, AnEndedJobIsDeleted) {
  const auto workers = Train("mnist", 1);
  EXPECT_EQ(Delete("mnist"), 1);
  EXPECT_THAT(said_, HasSubstr("refused to delete job mnist: job mnist runs; end it"));
  Leave(workers);
  EXPECT_EQ(Delete("mnist"), 0) << said_;
  EXPECT_EQ(printed_, "job mnist was deleted; the files of its checkpoints stay\n");
  EXPECT_EQ(Delete("mnist"), 1);
  EXPECT_THAT(said_, HasSubstr("there is no job mnist"));
}

TEST_F(JobCommandTest, OfTwoJobsOfOneNameTheTenantMustBeNamed) {
  const auto ours = Train("mnist", 1);
  const auto theirs = Train("mnist", 2, MakeTenant("other"));
  EXPECT_EQ(Show("mnist"), 2);
  EXPECT_THAT(said_, AllOf(HasSubstr("there are 2 jobs mnist"), HasSubstr("--tenant")));
  command_.tenant = "other";
  command_.json = true;
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_EQ(Json()["size"], 2);
}

TEST_F(JobCommandTest, OfTwoJobsOfOneNameTheOneThatRunsIsMeant) {
  const auto ours = Train("mnist", 1);
  Leave(ours);
  const auto theirs = Train("mnist", 2, MakeTenant("other"));
  command_.json = true;
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_EQ(Json()["tenant"], "other");
}

TEST_F(JobCommandTest, SourcesThatContradictEachOtherAreRefused) {
  command_.source.state_dir = options_.state_dir;
  EXPECT_EQ(List(), 2);
  EXPECT_EQ(said_, "farandole job: --state-dir and --coordinator exclude each other\n");
  command_.source.state_dir.clear();
  command_.source.token_file.clear();
  EXPECT_EQ(List(), 2);
  EXPECT_EQ(said_,
            "farandole job: --coordinator needs a --token-file with a token that it accepts, or a "
            "certificate: --cert and --key\n");
}

TEST_F(JobCommandTest, ACoordinatorThatIsGoneIsNamed) {
  const std::string address = coordinator_->address();
  coordinator_->Drain(absl::ZeroDuration());
  EXPECT_EQ(List(), 1);
  EXPECT_THAT(said_, HasSubstr("farandole job: coordinator " + address + " is unreachable: "));
  command_.source = CoordinatorSource();
  command_.source.state_dir = options_.state_dir + "/other";
  EXPECT_EQ(List(), 1);
  EXPECT_EQ(said_, "farandole job: no coordinator works in " + options_.state_dir + "/other\n");
}

TEST_F(JobCommandTest, JobsOfACoordinatorThatIsGoneAreReadFromItsStateDirectory) {
  const auto ended = Train("mnist", 2);
  const auto cut_off = Train("late", 2);
  EXPECT_EQ(Abort("mnist", "enough of this"), 0) << said_;
  coordinator_->Drain(absl::ZeroDuration());
  coordinator_.reset();
  command_.source = CoordinatorSource();
  command_.source.state_dir = options_.state_dir;
  EXPECT_EQ(List(), 0) << said_;
  EXPECT_THAT(
      printed_,
      ContainsRegex("mnist  failed        2      -     -  [0-9]+ s  an operator ended the job: enough of this"));
  EXPECT_THAT(printed_,
              ContainsRegex("late   failed        2      -     -  [0-9]+ s  its coordinator ended before it did; "
                            "before that: "));
  EXPECT_EQ(Show("mnist"), 0) << said_;
  EXPECT_THAT(printed_, HasSubstr("job          mnist of tenant default, kept in " + options_.state_dir + "\n"));
  EXPECT_THAT(printed_, HasSubstr("epoch 1 formed: all 2 workers joined"));
  EXPECT_EQ(Show("lat"), 1);
  EXPECT_EQ(said_, "farandole job: there is no job lat; did you mean late?\n");
  EXPECT_EQ(Abort("late", "again"), 1);
  EXPECT_THAT(said_, HasSubstr("job late has ended already (failed: its coordinator ended before it did"));
  command_.json = true;
  EXPECT_EQ(Show("mnist"), 0);
  EXPECT_EQ(Json()["state_dir"], options_.state_dir);
}

TEST_F(JobCommandTest, WithoutARunningCoordinatorTheDefaultDirectoriesAreNamed) {
  command_.source = CoordinatorSource();
  command_.source.state_home = options_.state_dir;
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(printed_, "no jobs in " + options_.state_dir + "/farandole, and no coordinator runs there\n");
  EXPECT_EQ(Show("mnist"), 1);
  EXPECT_THAT(said_, HasSubstr("there is no job mnist in " + options_.state_dir + "/farandole, and no coordinator"));
}

}  // namespace
}  // namespace farandole
