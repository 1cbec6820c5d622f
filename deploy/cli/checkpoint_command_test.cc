#include "deploy/cli/checkpoint_command.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "deploy/cli/commands.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/store/rocksdb_store.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr int64_t kCommitted = 1'700'000'000'000;

// A coordinator that knows one token and one job.
class OneJobMonitor : public v1::MonitorService::Service {
 public:
  v1::Checkpoint checkpoint;

  OneJobMonitor() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    if (!Knows(*context)) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the token is not known");
    response->add_jobs()->set_job("mnist");
    response->mutable_jobs(0)->set_tenant("team");
    return grpc::Status::OK;
  }
  grpc::Status ListCheckpoints(grpc::ServerContext* context, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    if (!Knows(*context)) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the token is not known");
    if (request->job() != "mnist")
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no job " + request->job());
    *response->add_checkpoints() = checkpoint;
    return grpc::Status::OK;
  }

 private:
  static bool Knows(const grpc::ServerContext& context) {
    const auto token = context.client_metadata().find("authorization");
    return token != context.client_metadata().end() && token->second == "Bearer secret";
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class CheckpointCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "/command.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    root_ = made;
    options_.source.jobs_directory = root_ + "/jobs";
  }
  void TearDown() override { fs::remove_all(root_); }

  // A checkpoint's file with its manifest, as a writer leaves it.
  v1::Checkpoint Write(const std::string& name, int64_t step, uint64_t token, const std::string& content) {
    Manifest manifest;
    v1::Checkpoint& checkpoint = manifest.checkpoint;
    checkpoint.set_name(name);
    checkpoint.set_step(step);
    checkpoint.set_token(token);
    checkpoint.set_path(
        absl::StrCat(root_, "/", absl::StrReplaceAll(name, {{"/", "-"}}), "-", step, ".t", token, ".pt"));
    checkpoint.set_committed_unix_ms(kCommitted + static_cast<int64_t>(token));
    std::ofstream(checkpoint.path()) << content;
    const absl::StatusOr<FileDigest> digest = DigestFile(checkpoint.path());
    checkpoint.set_size_bytes(digest->size_bytes);
    checkpoint.set_sha256(digest->sha256);
    EXPECT_TRUE(WriteManifest(manifest, manifest.checkpoint.path() + ".partial").ok());
    return checkpoint;
  }

  // Enters it in the catalogue of a job in a state directory.
  void Enter(const std::string& state_dir, const std::string& job, const v1::Checkpoint& checkpoint) {
    fs::create_directories(state_dir);
    absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksdbStore(state_dir + "/store");
    ASSERT_TRUE(store.ok()) << store.status();
    absl::Notification done;
    (*store)->Acquire("job", [&](absl::StatusOr<uint64_t> revision) {
      const std::string key = absl::StrFormat("checkpoint/team/%s/%s/%020d", job, checkpoint.name(), checkpoint.step());
      (*store)->Commit("job", revision.value(), StoreBatch{{}, {{key, checkpoint.SerializeAsString()}}},
                       [&](absl::Status status) {
                         EXPECT_TRUE(status.ok()) << status;
                         done.Notify();
                       });
    });
    done.WaitForNotification();
  }

  std::string Jobs(const std::string& job) const { return options_.source.jobs_directory + "/" + job; }
  int List() {
    out_.str("");
    return ListCheckpoints(options_, absl::FromUnixMillis(kCommitted) + absl::Minutes(5), out_, err_);
  }
  int Verify() {
    out_.str("");
    return VerifyCheckpoints(options_, out_, err_);
  }

  std::string root_;
  CheckpointOptions options_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CheckpointCommandTest, ListsAllJobsInTheOrderOfTheirCommits) {
  Enter(Jobs("b"), "b", Write("model", 20, 2, std::string(5 << 20, 'x')));
  Enter(Jobs("b"), "b", Write("best/one", 3, 1, "w"));
  Enter(Jobs("a"), "a", Write("model", 7, 3, "w"));
  fs::create_directories(Jobs("never-started"));
  fs::remove(root_ + "/model-7.t3.pt");
  EXPECT_EQ(List(), 0) << err_.str();
  const std::vector<std::string> lines = absl::StrSplit(out_.str(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u) << out_.str();
  EXPECT_EQ(lines[0], "JOB  NAME      STEP  TOKEN     SIZE    AGE  STATE    PATH");
  EXPECT_EQ(lines[1], absl::StrCat("a    model        7      3      1 B  4 min  missing  ", root_, "/model-7.t3.pt"));
  EXPECT_TRUE(absl::StartsWith(lines[2], "b    best/one     3      1      1 B")) << lines[2];
  EXPECT_TRUE(absl::StartsWith(lines[3], "b    model       20      2  5.0 MiB")) << lines[3];
}

TEST_F(CheckpointCommandTest, ListsOneJobAsJson) {
  Enter(Jobs("a"), "a", Write("model", 7, 3, "weights"));
  Enter(Jobs("b"), "b", Write("model", 8, 4, "weights"));
  options_.source.job = "b";
  options_.json = true;
  EXPECT_EQ(List(), 0) << err_.str();
  const auto json = nlohmann::json::parse(out_.str());
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["job"], "b");
  EXPECT_EQ(json[0]["step"], 8);
  EXPECT_EQ(json[0]["token"], 4);
  EXPECT_EQ(json[0]["size_bytes"], 7);
  EXPECT_EQ(json[0]["state"], "present");
  EXPECT_EQ(json[0]["sha256"].get<std::string>().size(), 64u);
}

TEST_F(CheckpointCommandTest, WhereNothingWasRunThereIsNothingToList) {
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(out_.str(), "no checkpoints\n");
  options_.source.job = "mnist";
  EXPECT_EQ(List(), 1);
  EXPECT_EQ(err_.str(), absl::StrCat("farandole checkpoint: there is no job mnist in ", root_, "/jobs\n"));
}

TEST_F(CheckpointCommandTest, ADirectoryWithoutAStoreIsNamed) {
  options_.source.state_dir = root_ + "/elsewhere";
  EXPECT_EQ(List(), 1);
  EXPECT_EQ(err_.str(),
            absl::StrCat("farandole checkpoint: there is no coordinator's store in ", root_, "/elsewhere/store\n"));
}

TEST_F(CheckpointCommandTest, ADamagedStoreDoesNotHideTheOthers) {
  Enter(Jobs("a"), "a", Write("model", 7, 3, "weights"));
  Enter(Jobs("b"), "b", Write("model", 8, 4, "weights"));
  std::ofstream(Jobs("a") + "/store/CURRENT") << "MANIFEST-999999\n";
  EXPECT_EQ(List(), 1);
  EXPECT_TRUE(absl::StrContains(err_.str(), Jobs("a"))) << err_.str();
  EXPECT_TRUE(absl::StrContains(out_.str(), "model-8.t4.pt")) << out_.str();
}

TEST_F(CheckpointCommandTest, VerifyTellsIntactFilesFromBadOnes) {
  for (int step = 1; step <= 4; ++step) Enter(root_ + "/state", "mnist", Write("model", step, step, "weights"));
  std::ofstream(root_ + "/model-2.t2.pt") << "weightr";
  std::ofstream(root_ + "/model-3.t3.pt") << "weig";
  fs::remove(root_ + "/model-4.t4.pt");
  options_.source.state_dir = root_ + "/state";
  EXPECT_EQ(Verify(), 1);
  const std::vector<std::string> lines = absl::StrSplit(out_.str(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5u) << out_.str();
  EXPECT_EQ(lines[0], absl::StrCat("OK          ", root_, "/model-1.t1.pt"));
  EXPECT_TRUE(absl::StartsWith(lines[1], absl::StrCat("CORRUPT     checkpoint ", root_, "/model-2.t2.pt has SHA-256 ")))
      << lines[1];
  EXPECT_EQ(lines[2], absl::StrCat("CORRUPT     checkpoint ", root_, "/model-3.t3.pt has 4 bytes, 7 were committed"));
  EXPECT_EQ(lines[3], absl::StrCat("MISSING     cannot read ", root_, "/model-4.t4.pt: No such file or directory"));
  EXPECT_EQ(lines[4], "1 good, 3 bad");
}

TEST_F(CheckpointCommandTest, FilesAreVerifiedAgainstTheManifestsBesideThem) {
  const std::string path = Write("model", 1, 1, "weights").path();
  options_.files = {path, ManifestPath(path)};
  EXPECT_EQ(Verify(), 0);
  EXPECT_EQ(out_.str(), absl::StrCat("OK          ", path, "\nOK          ", path, "\n2 good, 0 bad\n"));
  options_.files = {root_ + "/none.pt"};
  options_.json = true;
  EXPECT_EQ(Verify(), 1);
  EXPECT_EQ(nlohmann::json::parse(out_.str())[0]["state"], "MISSING");
}

TEST_F(CheckpointCommandTest, PathsAreShownWithoutWhatATerminalObeys) {
  const std::string path = Write("mo\x1b[2Jdel", 1, 1, "weights").path();
  options_.files = {path, path + "\x07"};
  EXPECT_EQ(Verify(), 1);
  EXPECT_THAT(out_.str(), testing::HasSubstr("/mo?[2Jdel-1.t1.pt\n"));
  EXPECT_EQ(out_.str().find_first_of("\x1b\x07"), std::string::npos) << out_.str();
}

TEST_F(CheckpointCommandTest, WhatServeKeepsByDefaultIsFoundToo) {
  EXPECT_EQ(Verify(), 1) << "nothing was verified";
  EXPECT_THAT(err_.str(), HasSubstr("no checkpoint is known, so that none was verified"));
  options_.source.serve_directory = root_ + "/serve";
  const v1::Checkpoint shared = Write("shared", 1, 1, "weights");
  Enter(options_.source.serve_directory, "served", shared);
  for (const char* const job : {"", "served"}) {
    options_.source.job = job;
    EXPECT_EQ(Verify(), 0) << err_.str();
    EXPECT_EQ(out_.str(), absl::StrCat("OK          ", shared.path(), "\n1 good, 0 bad\n"));
  }
  options_.source.job = "other";
  EXPECT_EQ(List(), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there is no job other in "));
}

TEST_F(CheckpointCommandTest, ARunningCoordinatorIsAsked) {
  OneJobMonitor monitor;
  monitor.checkpoint = Write("model", 7, 3, "weights");
  options_.source.coordinator = monitor.address();
  options_.source.token_file = root_ + "/token";
  std::ofstream(root_ + "/token") << "secret\n";
  for (const char* const job : {"", "mnist"}) {
    options_.source.job = job;
    EXPECT_EQ(Verify(), 0) << err_.str();
    EXPECT_EQ(out_.str(), absl::StrCat("OK          ", monitor.checkpoint.path(), "\n1 good, 0 bad\n"));
  }
  options_.source.job = "other";
  EXPECT_EQ(List(), 1);
  EXPECT_EQ(err_.str(), absl::StrCat("farandole checkpoint: coordinator ", monitor.address(),
                                     " refused to list the checkpoints of job other: there is no job other\n"));
}

TEST_F(CheckpointCommandTest, AWrongTokenIsNamedWithItsFile) {
  OneJobMonitor monitor;
  options_.source.coordinator = monitor.address();
  options_.source.token_file = root_ + "/token";
  std::ofstream(root_ + "/token") << "wrong\n";
  EXPECT_EQ(List(), 1);
  EXPECT_EQ(err_.str(), absl::StrCat("farandole checkpoint: coordinator ", monitor.address(), " refused the token in ",
                                     root_, "/token: the token is not known\n"));
}

TEST_F(CheckpointCommandTest, OptionsThatContradictEachOtherAreRefused) {
  options_.source.coordinator = "127.0.0.1:1";
  EXPECT_EQ(List(), 2);
  EXPECT_EQ(err_.str(),
            "farandole checkpoint: --coordinator needs a --token-file with a token that it accepts, or a "
            "certificate: --cert and --key\n");
  options_.source.state_dir = root_;
  EXPECT_EQ(List(), 2);
  options_.source = CatalogueSource();
  options_.source.token_file = root_ + "/token";
  EXPECT_EQ(List(), 2);
  options_.source = CatalogueSource();
  options_.source.job = "mnist";
  options_.files = {"x"};
  EXPECT_EQ(Verify(), 2);
}

TEST_F(CheckpointCommandTest, TheCommandLineReachesTheCommand) {
  Enter(root_ + "/state", "mnist", Write("model", 1, 1, "weights"));
  CLI::App app;
  int exit_code = -1;
  AddCheckpointCommand(&app, &exit_code);
  testing::internal::CaptureStdout();
  app.parse(absl::StrCat("checkpoint verify --job mnist --state-dir ", root_, "/state"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            absl::StrCat("OK          ", root_, "/model-1.t1.pt\n1 good, 0 bad\n"));
  EXPECT_EQ(exit_code, 0);
  EXPECT_THROW(app.parse("checkpoint"), CLI::Error);
}

}  // namespace
}  // namespace farandole
