#include "deploy/launcher/environment/horovod_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "deploy/launcher/environment/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

class HorovodOptionsTest : public testing::Test {
 protected:
  HorovodOptionsTest() { AddRunOptions(&app_, &options_); }

  // Parses the words behind `horovodrun` on the command line; the error, "" for none.
  std::string Parse(const Words& arguments) {
    Words marked = MarkCommand(app_, arguments);
    std::reverse(marked.begin(), marked.end());
    try {
      app_.parse(marked);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  std::string Complete() { return std::string(CompleteRunOptions(environment_, "node-1", &options_).message()); }

  CLI::App app_;
  RunOptions options_;
  RunEnvironment environment_;
};

TEST_F(HorovodOptionsTest, WhatHasAMeaningHereIsToldToTheWorkers) {
  ASSERT_EQ(
      Parse({"-np", "2", "--fusion-threshold-mb", "32", "--stall-check-warning-time-seconds", "30",
             "--stall-check-shutdown-time-seconds", "60", "--log-level", "FATAL", "--network-interfaces", "eth0,eth1",
             "--network-interface", "ib0", "--timeline-filename", "t.json", "--timeline-mark-cycles", "prog", "--tcp"}),
      "");
  EXPECT_THAT(
      options_.horovod.variables,
      UnorderedElementsAre(Pair("FARANDOLE_FUSION_THRESHOLD_BYTES", "33554432"),
                           Pair("FARANDOLE_STALL_WARNING_MS", "30000"), Pair("FARANDOLE_STALL_LIMIT_MS", "60000"),
                           Pair("FARANDOLE_LOG_LEVEL", "off"), Pair("FARANDOLE_NETWORK_INTERFACES", "eth0,eth1,ib0"),
                           Pair("FARANDOLE_TIMELINE", "t.json"), Pair("FARANDOLE_TIMELINE_MARK_CYCLES", "1")));
  EXPECT_EQ(options_.command, (Words{"prog", "--tcp"}));
}

TEST_F(HorovodOptionsTest, NoStallCheckCountsWhicheverComesFirst) {
  const Words never = {"--no-stall-check"};
  const Words seconds = {"--stall-check-warning-time-seconds", "5"};
  for (const auto& [first, second] : {std::make_pair(never, seconds), std::make_pair(seconds, never)}) {
    Words arguments = {"-np", "2"};
    arguments.insert(arguments.end(), first.begin(), first.end());
    arguments.insert(arguments.end(), second.begin(), second.end());
    arguments.push_back("prog");
    options_ = RunOptions();
    ASSERT_EQ(Parse(arguments), "");
    EXPECT_THAT(options_.horovod.variables, UnorderedElementsAre(Pair("FARANDOLE_STALL_WARNING_MS", "86400000")));
  }
}

TEST_F(HorovodOptionsTest, EveryOtherOptionOfHorovodsIsKnownAndSaysWhyItChangesNothing) {
  ASSERT_EQ(Parse({"-np",
                   "2",
                   "--gloo",
                   "--disable-cache",
                   "--cycle-time-ms",
                   "3.5",
                   "--cache-capacity",
                   "1",
                   "--hierarchical-allreduce",
                   "--no-hierarchical-allgather",
                   "--torus-allreduce",
                   "--autotune",
                   "--autotune-log-file",
                   "log",
                   "--autotune-warmup-samples",
                   "3",
                   "--autotune-steps-per-sample",
                   "10",
                   "--autotune-bayes-opt-max-samples",
                   "20",
                   "--autotune-gaussian-process-noise",
                   "0.8",
                   "--stall-check",
                   "--mpi-threads-disable",
                   "--num-nccl-streams",
                   "2",
                   "--thread-affinity",
                   "1",
                   "--gloo-timeout-seconds",
                   "60",
                   "--log-without-timestamp",
                   "--tcp",
                   "-prefix-timestamp",
                   "-p",
                   "22",
                   "-i",
                   "key",
                   "--start-timeout",
                   "30",
                   "--verbose",
                   "prog"}),
            "");
  EXPECT_EQ(Complete(), "");
  EXPECT_TRUE(options_.horovod.prefix_time);
  EXPECT_EQ(options_.ssh_port, 22);
  EXPECT_THAT(
      DescribeWithoutEffect(options_.horovod),
      AllOf(StartsWith("without effect here: "),
            HasSubstr("--num-nccl-streams (collectives between GPUs have one stream)"), Not(HasSubstr("--gloo ("))));
  EXPECT_THAT(options_.horovod.variables, IsEmpty());
}

TEST_F(HorovodOptionsTest, WhatIsForMpiChangesNothing) {
  ASSERT_EQ(Parse({"-np", "2", "--mpi", "--mpi-args=-x NCCL_DEBUG=INFO --tag-output", "--binding-args", "-bind-to none",
                   "prog"}),
            "");
  EXPECT_EQ(Complete(), "");
  EXPECT_EQ(options_.command, (Words{"prog"}));
  EXPECT_THAT(DescribeWithoutEffect(options_.horovod),
              AllOf(HasSubstr("--mpi (no MPI is used)"), HasSubstr("--mpi-args (no MPI is used)"),
                    HasSubstr("--binding-args (workers are not bound to cores)")));
  options_ = RunOptions();
  ASSERT_EQ(Parse({"-np", "2", "--jsrun", "prog"}), "");
  EXPECT_EQ(Complete(), "");
  EXPECT_THAT(DescribeWithoutEffect(options_.horovod), HasSubstr("--jsrun ("));
}

TEST_F(HorovodOptionsTest, AFilesControllerChangesNothingUnlessItIsNone) {
  ASSERT_EQ(Parse({"-np", "2", "prog"}), "");
  ASSERT_TRUE(ApplyHorovodSettings(&app_, "config.yaml", {{"controller", "MPI", 1}}).ok());
  EXPECT_EQ(DescribeWithoutEffect(options_.horovod), "without effect here: --mpi (no MPI is used)");
  const absl::Status unknown = ApplyHorovodSettings(&app_, "config.yaml", {{"controller", "spark", 3}});
  EXPECT_EQ(unknown.message(),
            "config.yaml:3: controller: there is no controller spark; there are gloo, mpi and jsrun");
}

TEST_F(HorovodOptionsTest, OppositesExcludeEachOther) {
  EXPECT_THAT(Parse({"-np", "2", "--autotune", "--no-autotune", "prog"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"-np", "2", "--gloo", "--mpi", "prog"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"-np", "2", "--cycle-time-ms", "-1", "prog"}), HasSubstr("-1"));
}

TEST_F(HorovodOptionsTest, BuildIsShownWithoutACommand) {
  ASSERT_EQ(Parse({"-cb"}), "");
  EXPECT_TRUE(options_.horovod.check_build);
  EXPECT_THAT(DescribeBuild({{"PyTorch", ""}, {"MXNet", "not installed"}}),
              AllOf(HasSubstr("Available Frameworks:\n    [X] PyTorch\n    [ ] MXNet (not installed)\n\n"),
                    HasSubstr("[X] Gloo"), HasSubstr("[X] NCCL"), HasSubstr("[ ] MPI")));
}

TEST_F(HorovodOptionsTest, AFilesSettingsCountWhereTheCommandLineSaysNothing) {
  ASSERT_EQ(Parse({"-np", "2", "--fusion-threshold-mb", "1", "prog"}), "");
  const absl::Status applied = ApplyHorovodSettings(&app_, "config.yaml",
                                                    {{"params.fusion_threshold_mb", "32", 1},
                                                     {"params.cycle_time_ms", "5", 2},
                                                     {"stall_check.enabled", "false", 3},
                                                     {"autotune.enabled", "true", 4},
                                                     {"controller", "gloo", 5}});
  ASSERT_TRUE(applied.ok()) << applied;
  EXPECT_THAT(options_.horovod.variables, UnorderedElementsAre(Pair("FARANDOLE_FUSION_THRESHOLD_BYTES", "1048576"),
                                                               Pair("FARANDOLE_STALL_WARNING_MS", "86400000")));
  EXPECT_THAT(options_.horovod.without_effect, Contains(Pair("--cycle-time-ms", testing::_)));
  EXPECT_THAT(options_.horovod.without_effect, Contains(Pair("--autotune", testing::_)));
}

TEST_F(HorovodOptionsTest, AFileMayAskForEncryption) {
  for (const auto& [value, variable] : {std::make_pair("true", "1"), std::make_pair("false", "0")}) {
    options_ = RunOptions();
    ASSERT_EQ(Parse({"-np", "2", "prog"}), "");
    const absl::Status applied = ApplyHorovodSettings(&app_, "config.yaml", {{"encrypt", value, 1}});
    ASSERT_TRUE(applied.ok()) << applied;
    EXPECT_THAT(options_.horovod.variables, UnorderedElementsAre(Pair("FARANDOLE_ENCRYPT", variable)));
    app_.clear();
  }
  options_ = RunOptions();
  ASSERT_EQ(Parse({"-np", "2", "--no-encrypt", "prog"}), "");
  ASSERT_TRUE(ApplyHorovodSettings(&app_, "config.yaml", {{"encrypt", "true", 1}}).ok());
  EXPECT_THAT(options_.horovod.variables, UnorderedElementsAre(Pair("FARANDOLE_ENCRYPT", "0")));
  environment_.variables = {"FARANDOLE_ENCRYPT=1"};
  EXPECT_THAT(WorkerVariables(environment_, options_), UnorderedElementsAre("FARANDOLE_ENCRYPT=0"));
  EXPECT_THAT(Parse({"-np", "2", "--no-encrypt", "--encrypt", "prog"}), HasSubstr("excludes"));
}

TEST_F(HorovodOptionsTest, AFilesMistakesAreNamedWithTheirLine) {
  ASSERT_EQ(Parse({"-np", "2", "prog"}), "");
  const auto error = [this](const HorovodSetting& setting) {
    return std::string(ApplyHorovodSettings(&app_, "c.yaml", {setting}).message());
  };
  EXPECT_THAT(error({"params.cycle_time", "1", 7}), HasSubstr("c.yaml:7: params.cycle_time: there is no such setting; "
                                                              "did you mean params.cycle_time_ms?"));
  EXPECT_THAT(error({"params.cycle_time_ms", "soon", 8}), HasSubstr("c.yaml:8: params.cycle_time_ms"));
  EXPECT_THAT(error({"autotune.enabled", "perhaps", 9}), HasSubstr("perhaps is not true or false"));
}

TEST_F(HorovodOptionsTest, TheCommandLineGoesBeforeHorovodsVariables) {
  environment_.start_timeout = "45";
  environment_.variables = {"HOROVOD_STALL_CHECK_TIME_SECONDS=60", "HOROVOD_FUSION_THRESHOLD=5", "PATH=/bin"};
  ASSERT_EQ(Parse({"-np", "2", "--stall-check-warning-time-seconds", "30", "prog"}), "");
  EXPECT_EQ(Complete(), "");
  EXPECT_EQ(options_.start_timeout_s, 45);
  EXPECT_THAT(WorkerVariables(environment_, options_),
              UnorderedElementsAre("HOROVOD_FUSION_THRESHOLD=5", "PATH=/bin", "FARANDOLE_STALL_WARNING_MS=30000"));
  environment_.start_timeout = "soon";
  options_.start_timeout_s = 0;
  EXPECT_THAT(Complete(), HasSubstr("HOROVOD_START_TIMEOUT is \"soon\""));
}

}  // namespace
}  // namespace farandole::launcher
