#include "worker/launch/options.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

// Variables of the environment for the time of a test.
class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override { Set("FARANDOLE_JOB", "mnist"); }
  void TearDown() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  farandole_init_options given_ = {};

 private:
  std::vector<std::string> set_;
};

TEST_F(OptionsTest, ACertificateStandsForAToken) {
  const TestAuthority authority("CA");
  const Certificate pair = authority.Issue({}, absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1));
  const std::string cert = ::testing::TempDir() + "/own.pem", key = ::testing::TempDir() + "/own.key";
  std::ofstream(cert) << pair.certificate_pem;
  std::ofstream(key) << pair.key_pem;
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  Set("FARANDOLE_COORDINATOR", "h:1");
  const auto error = [] { return std::string(ReadWorkerOptions(nullptr).status().message()); };
  EXPECT_THAT(error(), HasSubstr("set FARANDOLE_TOKEN_FILE, or FARANDOLE_CERT_FILE and FARANDOLE_KEY_FILE"));
  Set("FARANDOLE_CERT_FILE", cert);
  EXPECT_THAT(error(), HasSubstr("FARANDOLE_KEY_FILE is \"\""));
  Set("FARANDOLE_KEY_FILE", key);
  EXPECT_THAT(error(), HasSubstr("FARANDOLE_CA_FILE is \"\": a certificate needs its key, and TLS"));
  Set("FARANDOLE_CA_FILE", cert);
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(nullptr);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->token, "");
  EXPECT_EQ(options->certificate.key_pem, pair.key_pem);
  // A token that is named is read, and an empty name is none.
  Set("FARANDOLE_TOKEN_FILE", "/no/token");
  EXPECT_THAT(error(), HasSubstr("/no/token"));
  Set("FARANDOLE_TOKEN_FILE", "");
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_EQ(ReadWorkerOptions(nullptr).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(error(), HasSubstr("has mode 0644, so that every user of this host may read it"));
}

TEST_F(OptionsTest, AJobWithoutBoundsIsNotElastic) {
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(nullptr);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->is_elastic());
  EXPECT_EQ(options->min_size, 0);
}

TEST_F(OptionsTest, OneBoundMakesAJobElasticAndTheSizeIsTheOther) {
  Set("FARANDOLE_MAX_SIZE", "8");
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(nullptr);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->is_elastic());
  EXPECT_EQ(options->min_size, 1);
  EXPECT_EQ(options->max_size, 8);
  EXPECT_EQ(options->join_window, absl::Milliseconds(200));
  EXPECT_EQ(options->shortage_limit, absl::Seconds(600));
  EXPECT_EQ(options->reset_limit, 0);
  EXPECT_EQ(options->most_cooldown, absl::ZeroDuration());
}

TEST_F(OptionsTest, TheCallersValuesGoBeforeTheEnvironments) {
  Set("FARANDOLE_MIN_SIZE", "1");
  Set("FARANDOLE_RESET_LIMIT", "3");
  Set("FARANDOLE_JOIN_WINDOW_MS", "0");
  given_.struct_bytes = sizeof(given_);
  given_.max_size = 5;
  given_.reset_limit = 7;
  given_.launch_index = 70'001;
  given_.most_cooldown_ms = 9'000;
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(&given_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->max_size, 5);
  EXPECT_EQ(options->reset_limit, 7);
  EXPECT_EQ(options->launch_index, 70'000);
  EXPECT_EQ(options->join_window, absl::ZeroDuration());
  EXPECT_EQ(options->most_cooldown, absl::Seconds(9));
}

TEST_F(OptionsTest, ACallerOfAnOlderVersionKnowsNoBounds) {
  given_.struct_bytes = offsetof(farandole_init_options, min_size);
  given_.min_size = 99;
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(&given_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->is_elastic());
}

TEST_F(OptionsTest, BoundsThatDoNotHoldTheSizeAreRefusedWithBothValues) {
  Set("FARANDOLE_MIN_SIZE", "2");
  const absl::Status too_small = ReadWorkerOptions(nullptr).status();
  EXPECT_EQ(too_small.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(too_small.message(), "FARANDOLE_MIN_SIZE is 2, but must be at most FARANDOLE_SIZE, which is 1");
  Set("FARANDOLE_MIN_SIZE", "1");
  Set("FARANDOLE_SIZE", "4");
  Set("FARANDOLE_MAX_SIZE", "3");
  EXPECT_EQ(ReadWorkerOptions(nullptr).status().message(),
            "FARANDOLE_SIZE is 4, but must be at most FARANDOLE_MAX_SIZE, which is 3");
  Set("FARANDOLE_MAX_SIZE", "0");
  EXPECT_THAT(std::string(ReadWorkerOptions(nullptr).status().message()), HasSubstr("must be from 1 to 65536"));
}

TEST_F(OptionsTest, TheLeastCooldownIsAtMostTheMost) {
  Set("FARANDOLE_COOLDOWN_MIN_MS", "10");
  EXPECT_EQ(ReadWorkerOptions(nullptr).status().message(),
            "FARANDOLE_COOLDOWN_MIN_MS is 10, but must be at most FARANDOLE_COOLDOWN_MAX_MS, which is 0");
}

TEST_F(OptionsTest, EncryptionIsForTransportsThatHaveIt) {
  EXPECT_FALSE(ReadWorkerOptions(nullptr)->encrypts);
  Set("FARANDOLE_ENCRYPT", "1");
  for (const char* transport : {"auto", "tcp", "shm"}) {
    Set("FARANDOLE_TRANSPORT", transport);
    const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(nullptr);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_TRUE(options->encrypts);
  }
  Set("FARANDOLE_TRANSPORT", "gloo");
  EXPECT_EQ(ReadWorkerOptions(nullptr).status(),
            absl::InvalidArgumentError(
                "FARANDOLE_ENCRYPT is 1 and FARANDOLE_TRANSPORT is \"gloo\", but Gloo encrypts nothing and takes any "
                "process for a peer; set FARANDOLE_TRANSPORT to \"auto\" or \"tcp\""));
  Set("FARANDOLE_ENCRYPT", "0");
  EXPECT_TRUE(ReadWorkerOptions(nullptr).ok());
  Set("FARANDOLE_ENCRYPT", "yes");
  EXPECT_THAT(std::string(ReadWorkerOptions(nullptr).status().message()), HasSubstr("FARANDOLE_ENCRYPT is \"yes\""));
}

TEST_F(OptionsTest, HorovodsVariablesCountWhereOursAreNotSet) {
  Set("HOROVOD_STALL_CHECK_TIME_SECONDS", "30");
  absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(nullptr);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->stall_warning, absl::Seconds(30));
  Set("FARANDOLE_STALL_WARNING_MS", "500");
  options = ReadWorkerOptions(nullptr);
  EXPECT_THAT(std::string(options.status().message()), HasSubstr("leave one out"));
}

TEST_F(OptionsTest, NcclsRasIsAskedWhereNcclHasIt) {
  EXPECT_EQ(ReadNcclSettings().nccl_ras, "localhost:28028");
  Set("NCCL_RAS_ADDR", "[::1]:9");
  EXPECT_EQ(ReadWorkerOptions(nullptr)->nccl_ras, "[::1]:9");
  Set("NCCL_RAS_ENABLE", "0");
  EXPECT_EQ(ReadWorkerOptions(nullptr)->nccl_ras, "");
  Set("NCCL_RAS_ENABLE", "yes");
  EXPECT_EQ(ReadWorkerOptions(nullptr)->nccl_ras, "[::1]:9");
}

TEST_F(OptionsTest, NcclsSettingsAreReadWhateverIsWrongWithOthers) {
  Set("FARANDOLE_SIZE", "0");
  Set("FARANDOLE_NCCL_LIBRARY", "none");
  Set("NCCL_COMM_BLOCKING", "1");
  EXPECT_FALSE(ReadWorkerOptions(nullptr).ok());
  EXPECT_EQ(ReadNcclSettings().nccl_library, "none");
  EXPECT_TRUE(ReadNcclSettings().nccl_blocks);
}

TEST_F(OptionsTest, SomeOfALaunchMayBeAJobOfTheirOwn) {
  Set("FARANDOLE_SIZE", "4");
  Set("FARANDOLE_LAUNCH_INDEX", "3");
  Set("FARANDOLE_COORDINATOR", "h:1");
  Set("FARANDOLE_TOKEN_FILE", "/dev/null");
  const int32_t members[] = {3, 1, 0};
  given_.struct_bytes = sizeof(given_);
  given_.members = members;
  given_.member_count = 3;
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(&given_);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job, "mnist.3-1-0");
  EXPECT_EQ(options->size, 3);
  EXPECT_EQ(options->launch_index, 0);
  Set("FARANDOLE_LAUNCH_INDEX", "2");
  EXPECT_THAT(std::string(ReadWorkerOptions(&given_).status().message()),
              HasSubstr("number 2 of the launch, which is not among the ranks [3, 1, 0]"));
  const int32_t wrong[] = {0, 4, 2};
  given_.members = wrong;
  EXPECT_THAT(std::string(ReadWorkerOptions(&given_).status().message()), HasSubstr("of the 4 that were launched"));
}

TEST_F(OptionsTest, SomeOfAnMpirunMeetUnderANameOfTheirOwn) {
  Set("OMPI_COMM_WORLD_RANK", "2");
  Set("OMPI_COMM_WORLD_SIZE", "4");
  Set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  const int32_t members[] = {0, 2};
  given_.struct_bytes = sizeof(given_);
  given_.members = members;
  given_.member_count = 2;
  const absl::StatusOr<WorkerOptions> options = ReadWorkerOptions(&given_);
  ASSERT_TRUE(options.ok() && options->launch.has_value()) << options.status();
  EXPECT_EQ(options->launch->rank, 1);
  EXPECT_EQ(options->launch->size, 2);
  EXPECT_EQ(options->launch->local_size, 2);
  EXPECT_TRUE(absl::EndsWith(options->launch->name, ".0-2")) << options->launch->name;
}

}  // namespace
}  // namespace farandole
