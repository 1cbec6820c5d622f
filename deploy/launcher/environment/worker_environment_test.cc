#include "deploy/launcher/environment/worker_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

WorkerSettings Settings() {
  WorkerSettings settings;
  settings.coordinator = "127.0.0.1:4000";
  settings.token_file = "/state/token";
  settings.job = "train";
  settings.size = 3;
  settings.size_here = 3;
  settings.cores = 8;
  return settings;
}

TEST(WorkerEnvironmentTest, AWorkerIsToldWhoItIsAndWhereToJoin) {
  WorkerSettings settings = Settings();
  settings.inherited = {"HOME=/home/me", "EMPTY="};
  settings.join_timeout_ms = 1500;
  EXPECT_THAT(
      settings.Environment(2, 2, 3),
      UnorderedElementsAre("HOME=/home/me", "EMPTY=", "FARANDOLE_COORDINATOR=127.0.0.1:4000",
                           "FARANDOLE_TOKEN_FILE=/state/token", "FARANDOLE_JOB=train", "FARANDOLE_SIZE=3",
                           "FARANDOLE_LAUNCH_INDEX=2", "FARANDOLE_LOCAL_SLOT=2", "FARANDOLE_JOIN_TIMEOUT_MS=1500",
                           "OMP_NUM_THREADS=2", "TF_NUM_INTEROP_THREADS=2", "PYTHONUNBUFFERED=1"));
}

TEST(WorkerEnvironmentTest, WhatTheUserHasSetStaysButForTheLaunchersOwn) {
  WorkerSettings settings = Settings();
  settings.inherited = {"OMP_NUM_THREADS=5", "TF_NUM_INTEROP_THREADS=4", "PYTHONUNBUFFERED=", "FARANDOLE_SIZE=99",
                        "FARANDOLE_LAUNCH_INDEX=9"};
  EXPECT_THAT(settings.ThreadVariables(), testing::IsEmpty());
  EXPECT_THAT(settings.Environment(0, 0, 3),
              UnorderedElementsAre("OMP_NUM_THREADS=5", "TF_NUM_INTEROP_THREADS=4",
                                   "PYTHONUNBUFFERED=", "FARANDOLE_COORDINATOR=127.0.0.1:4000",
                                   "FARANDOLE_TOKEN_FILE=/state/token", "FARANDOLE_JOB=train", "FARANDOLE_SIZE=3",
                                   "FARANDOLE_LAUNCH_INDEX=0", "FARANDOLE_LOCAL_SLOT=0"));
}

TEST(WorkerEnvironmentTest, HorovodsNamesGoInFrontOfThePythonPath) {
  WorkerSettings settings = Settings();
  settings.drop_in = "/lib/farandole/_dropin";
  settings.inherited = {"PYTHONPATH=/mine:/other"};
  settings.host = "node-b";
  settings.shares = {{"node-a", 0, 4, false}, {"node-b", 4, 3, true}, {"node-c", 7, 2, false}};
  EXPECT_THAT(settings.Environment(2, 2, 3),
              IsSupersetOf({"PYTHONPATH=/lib/farandole/_dropin:/mine:/other", "HOROVOD_RANK=2", "HOROVOD_SIZE=3",
                            "HOROVOD_LOCAL_RANK=2", "HOROVOD_LOCAL_SIZE=3", "HOROVOD_CROSS_RANK=1",
                            "HOROVOD_CROSS_SIZE=2", "HOROVOD_HOSTNAME=node-b"}));
  settings.inherited.clear();
  settings.is_elastic = true;
  EXPECT_THAT(settings.Environment(2, 2, 3),
              IsSupersetOf({"PYTHONPATH=/lib/farandole/_dropin", "HOROVOD_ELASTIC=1", "HOROVOD_HOSTNAME=node-b"}));
  EXPECT_THAT(settings.Environment(2, 2, 3), Not(Contains(testing::StartsWith("HOROVOD_RANK"))));
  EXPECT_THAT(settings.Environment(2, 2, 3), Not(Contains(testing::StartsWith("HOROVOD_CROSS"))));
}

TEST(WorkerEnvironmentTest, ElasticWorkersAreToldTheBoundsThatAreSet) {
  ElasticSettings elastic;
  EXPECT_THAT(elastic.Variables(), testing::IsEmpty());
  elastic.min_size = 2;
  elastic.max_size = 4;
  elastic.shortage_limit_ms = 1500;
  elastic.reset_limit = 3;
  elastic.least_cooldown_ms = 1000;
  elastic.most_cooldown_ms = 9000;
  EXPECT_THAT(elastic.Variables(),
              UnorderedElementsAre("FARANDOLE_MIN_SIZE=2", "FARANDOLE_MAX_SIZE=4", "FARANDOLE_ELASTIC_TIMEOUT_MS=1500",
                                   "FARANDOLE_RESET_LIMIT=3", "FARANDOLE_COOLDOWN_MIN_MS=1000",
                                   "FARANDOLE_COOLDOWN_MAX_MS=9000"));
}

TEST(WorkerEnvironmentTest, ALaunchThatJoinsOthersHasIndicesOfItsOwn) {
  WorkerSettings settings = Settings();
  settings.first_index = 65536;
  EXPECT_THAT(settings.Environment(2, 2, 3), Contains("FARANDOLE_LAUNCH_INDEX=65538"));
}

TEST(WorkerEnvironmentTest, EachWorkerHasAtLeastOneThread) {
  WorkerSettings settings = Settings();
  settings.size_here = 16;
  EXPECT_THAT(settings.Environment(0, 0, 3), IsSupersetOf({"OMP_NUM_THREADS=1", "TF_NUM_INTEROP_THREADS=1"}));
  settings.inherited = {"OMP_NUM_THREADS=8"};
  EXPECT_THAT(settings.ThreadVariables(), testing::ElementsAre(testing::Pair("TF_NUM_INTEROP_THREADS", "1")));
}

TEST(WorkerEnvironmentTest, TheCertificateOfAnotherCoordinatorIsNotTold) {
  WorkerSettings settings = Settings();
  settings.inherited = {"FARANDOLE_CA_FILE=/mine.pem"};
  EXPECT_THAT(settings.Environment(0, 0, 3), Contains("FARANDOLE_CA_FILE="));
  settings.ca_file = "/run/ca.pem";
  EXPECT_THAT(settings.Environment(0, 0, 3), Contains("FARANDOLE_CA_FILE=/run/ca.pem"));
}

TEST(WorkerEnvironmentTest, TheLaunchersCertificateIsNotItsWorkers) {
  WorkerSettings settings = Settings();
  settings.inherited = {"FARANDOLE_CERT_FILE=/mine.pem", "FARANDOLE_KEY_FILE=/mine.key"};
  EXPECT_THAT(settings.Environment(0, 0, 3), IsSupersetOf({"FARANDOLE_CERT_FILE=", "FARANDOLE_KEY_FILE="}));
}

TEST(WorkerEnvironmentTest, WithoutACoordinatorTheUsersIsLeftAlone) {
  WorkerSettings settings = Settings();
  settings.coordinator = "";
  settings.inherited = {"FARANDOLE_COORDINATOR=far:1", "FARANDOLE_TOKEN_FILE=/t", "FARANDOLE_CA_FILE=/c"};
  EXPECT_THAT(settings.Environment(0, 0, 3),
              IsSupersetOf({"FARANDOLE_COORDINATOR=far:1", "FARANDOLE_TOKEN_FILE=/t", "FARANDOLE_CA_FILE=/c"}));
}

TEST(WorkerEnvironmentTest, OtherHostsGetWhatIsNotOfThisHostAndWhatTheUserNames) {
  const std::vector<std::string> all = {"PATH=/bin",
                                        "HOME=/home/me",
                                        "HOROVOD_CYCLE_TIME=1",
                                        "NCCL_DEBUG=INFO",
                                        "TMPDIR=/scratch/7",
                                        "CUDA_VISIBLE_DEVICES=0,1",
                                        "PYTHONPATH=a=b",
                                        "SSH_CONNECTION=1 2 3 4",
                                        "ROCR_VISIBLE_DEVICES=2",
                                        "XDG_RUNTIME_DIR=/x",
                                        "BASH_FUNC_f%%=() { :; }",
                                        "EMPTY=",
                                        "HOSTNAME=node-1",
                                        "PMIX_RANK=0",
                                        "OMPI_COMM_WORLD_RANK=0"};
  EXPECT_THAT(TravellingVariables(all, {"TMPDIR", "GIVEN=2=3", "PATH=/other", "ABSENT"}),
              UnorderedElementsAre("PATH=/other", "HOROVOD_CYCLE_TIME=1", "NCCL_DEBUG=INFO", "TMPDIR=/scratch/7",
                                   "PYTHONPATH=a=b", "EMPTY=", "GIVEN=2=3"));
}

TEST(WorkerEnvironmentTest, NcclIsToldTheInterfaces) {
  WorkerSettings settings = Settings();
  EXPECT_THAT(settings.Environment(0, 0, 3), Not(Contains(testing::StartsWith("NCCL_"))));
  settings.nccl_interfaces = "=eth0";
  EXPECT_THAT(settings.Environment(0, 0, 3), Contains("NCCL_SOCKET_IFNAME==eth0"));
}

TEST(WorkerEnvironmentTest, AnOverlayReplacesVariablesOfTheSameName) {
  EXPECT_THAT(OverlayVariables({"A=1", "B=2"}, {"B=3", "C=4"}), UnorderedElementsAre("A=1", "B=3", "C=4"));
  EXPECT_EQ(ValueOf({"A=1", "AB=2"}, "AB"), "2");
  EXPECT_EQ(ValueOf({"A=1"}, "AB"), "");
}

}  // namespace
}  // namespace farandole::launcher
