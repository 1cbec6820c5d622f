#include "worker/launch/horovod_variables.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Variables = std::vector<std::string>;

std::map<std::string, std::string> Read(const Variables& variables) {
  const absl::StatusOr<std::map<std::string, std::string>> said = ReadHorovodVariables(variables, {});
  EXPECT_TRUE(said.ok()) << said.status();
  return said.ok() ? *said : std::map<std::string, std::string>();
}

std::string ErrorOf(const Variables& variables) {
  return std::string(ReadHorovodVariables(variables, {}).status().message());
}

TEST(HorovodVariablesTest, EachSaysWhatOurSettingSays) {
  EXPECT_THAT(Read({"HOROVOD_FUSION_THRESHOLD=1048576", "HOROVOD_STALL_CHECK_TIME_SECONDS=30",
                    "HOROVOD_ELASTIC_TIMEOUT=60", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=90", "HOROVOD_GLOO_IFACE=eth0",
                    "HOROVOD_LOG_LEVEL=WARNING", "HOROVOD_TIMELINE=/tmp/t.json", "HOROVOD_TIMELINE_MARK_CYCLES=1"}),
              UnorderedElementsAre(
                  Pair("FARANDOLE_FUSION_THRESHOLD_BYTES", "1048576"), Pair("FARANDOLE_STALL_WARNING_MS", "30000"),
                  Pair("FARANDOLE_STALL_LIMIT_MS", "90000"), Pair("FARANDOLE_ELASTIC_TIMEOUT_MS", "60000"),
                  Pair("FARANDOLE_NETWORK_INTERFACES", "eth0"), Pair("FARANDOLE_LOG_LEVEL", "warning"),
                  Pair("FARANDOLE_TIMELINE", "/tmp/t.json"), Pair("FARANDOLE_TIMELINE_MARK_CYCLES", "1")));
  EXPECT_THAT(Read({"HOROVOD_TIMELINE=DYNAMIC"}), IsEmpty()) << "the program starts it later";
  EXPECT_THAT(Read({"HOROVOD_STALL_CHECK_DISABLE=1"}),
              UnorderedElementsAre(Pair("FARANDOLE_STALL_WARNING_MS", "86400000")));
  EXPECT_THAT(Read({"HOROVOD_STALL_CHECK_DISABLE=0", "HOROVOD_LOG_LEVEL=", "HOROVOD_CYCLE_TIME=1", "PATH=/bin"}),
              IsEmpty());
}

TEST(HorovodVariablesTest, OneLetterAwayFromOneThatHasAMeaningHereIsAnError) {
  EXPECT_EQ(ErrorOf({"HOROVOD_FUSION_TRESHOLD=1"}),
            "HOROVOD_FUSION_TRESHOLD is set to \"1\", but Horovod has no such variable; did you mean "
            "HOROVOD_FUSION_THRESHOLD?");
  for (const char* misspelt : {"HOROVOD_TIMELINES=1", "HOROVOD_LOGLEVEL=1", "HOROVOD_GLOO_IFCAE=1",
                               "HOROVOD_START_TIMEOUTS=1", "HOROVOD_ELASTIC_TIMEUOT=1"}) {
    EXPECT_THAT(ErrorOf({misspelt}), HasSubstr("did you mean HOROVOD_")) << misspelt;
  }
}

TEST(HorovodVariablesTest, OtherUnknownOnesAreNamedInOneSentenceAndChangeNothing) {
  // Variables of container images and of clusters, variables near meaningless ones, and some two letters away.
  const Variables others = {
      "HOROVOD_IMAGE=registry/horovod:1", "HOROVOD_TIME=30", "HOROVOD_GPUS=2", "HOROVOD_CYCLE_TIMES=1",
      "HOROVOD_FUSION_TRESHLD=1",         "HOROVOD_EMPTY="};
  EXPECT_THAT(Read(others), IsEmpty());
  EXPECT_EQ(
      DescribeUnknownHorovodVariables(others),
      "HOROVOD_CYCLE_TIMES, HOROVOD_FUSION_TRESHLD, HOROVOD_GPUS, HOROVOD_IMAGE, HOROVOD_TIME are set, but without "
      "effect: Horovod has no variable of these names");
  EXPECT_EQ(DescribeUnknownHorovodVariables({"HOROVOD_TIME=30"}),
            "HOROVOD_TIME is set, but without effect: Horovod has no variable of that name");
  EXPECT_EQ(DescribeUnknownHorovodVariables({"HOROVOD_CYCLE_TIME=1", "HOROVOD_GPU=CUDA", "PATH=/bin"}), "");
  // A user who also sets the right one has not misspelt it.
  EXPECT_THAT(Read({"HOROVOD_LOG_LEVEL=INFO", "HOROVOD_LOG_LEVEL2=x"}),
              UnorderedElementsAre(Pair("FARANDOLE_LOG_LEVEL", "info")));
}

TEST(HorovodVariablesTest, AWrongValueIsNamed) {
  EXPECT_THAT(ErrorOf({"HOROVOD_STALL_CHECK_TIME_SECONDS=soon"}), HasSubstr("\"soon\", but must be a whole number"));
  EXPECT_THAT(ErrorOf({"HOROVOD_LOG_LEVEL=loud"}), HasSubstr("one of TRACE"));
}

TEST(HorovodVariablesTest, WhatContradictsOurSettingIsRefused) {
  EXPECT_THAT(ErrorOf({"HOROVOD_STALL_CHECK_TIME_SECONDS=30", "FARANDOLE_STALL_WARNING_MS=5000"}),
              AllOf(HasSubstr("HOROVOD_STALL_CHECK_TIME_SECONDS is \"30\""),
                    HasSubstr("FARANDOLE_STALL_WARNING_MS is \"5000\"")));
  EXPECT_THAT(Read({"HOROVOD_STALL_CHECK_TIME_SECONDS=30", "HOROVOD_STALL_CHECK_DISABLE=1"}),
              UnorderedElementsAre(Pair("FARANDOLE_STALL_WARNING_MS", "86400000")))
      << "as with Horovod";
  EXPECT_THAT(Read({"HOROVOD_STALL_CHECK_TIME_SECONDS=5", "FARANDOLE_STALL_WARNING_MS=5000"}),
              UnorderedElementsAre(Pair("FARANDOLE_STALL_WARNING_MS", "5000")));
}

TEST(HorovodVariablesTest, WhatTheProgramSetsGoesBeforeWhatItWasStartedWith) {
  const std::string launcher = "FARANDOLE_FUSION_THRESHOLD_BYTES=33554432", program = "HOROVOD_FUSION_THRESHOLD=0";
  const absl::StatusOr<std::map<std::string, std::string>> said = ReadHorovodVariables({launcher, program}, {launcher});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_THAT(*said, UnorderedElementsAre(Pair("FARANDOLE_FUSION_THRESHOLD_BYTES", "0")));
  EXPECT_FALSE(ReadHorovodVariables({launcher, program}, {launcher, program}).ok()) << "both came from outside";
  EXPECT_FALSE(ReadHorovodVariables({launcher, program}, {}).ok()) << "the program has set both";
}

}  // namespace
}  // namespace farandole
