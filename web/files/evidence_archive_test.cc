#include "web/files/evidence_archive.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Ranks 0 to 3 have some 1,000 bytes of evidence each, and rank 4 has not answered. Rank 2 is waited for.
v1::DiagnoseResponse Stuck() {
  v1::DiagnoseResponse answer;
  answer.set_epoch(1);
  answer.set_size(5);
  answer.set_sentence("rank 2 has not submitted allreduce 'b'");
  v1::FlightWait* const wait = answer.add_waits();
  wait->set_name("b");
  wait->add_waiting(0);
  wait->add_missing(2);
  for (const uint32_t rank : {0u, 1u, 2u, 3u, 4u}) {
    v1::RankEvidence* const one = answer.add_ranks();
    one->set_rank(rank);
    if (rank == 4) {
      one->set_silence("it did not answer within 4 s");
    } else {
      one->mutable_evidence()->add_settings(absl::StrCat("of-rank-", rank, "=", std::string(1000, 'x')));
    }
  }
  for (const uint32_t rank : {0u, 1u}) {
    v1::StackGroup* const group = answer.add_stacks();
    group->add_ranks(rank);
    group->add_frames()->set_function(absl::StrCat("frame-of-rank-", rank, std::string(800, 'f')));
  }
  return answer;
}

TEST(EvidenceWithinTest, EvidenceThatFitsIsAllThere) {
  EXPECT_EQ(EvidenceWithin(Stuck(), 1 << 20).SerializeAsString(), Stuck().SerializeAsString());
}

TEST(EvidenceWithinTest, RanksThatOthersWaitForComeFirstAndTheOthersAreNamed) {
  const v1::DiagnoseResponse kept = EvidenceWithin(Stuck(), 3000);
  ASSERT_EQ(kept.ranks_size(), 5);
  EXPECT_TRUE(kept.ranks(2).has_evidence());
  EXPECT_TRUE(kept.ranks(0).has_evidence());
  for (const int rank : {1, 3}) {
    EXPECT_FALSE(kept.ranks(rank).has_evidence()) << rank;
    EXPECT_THAT(kept.ranks(rank).silence(), HasSubstr("left out: this archive takes 3000 bytes of evidence")) << rank;
  }
  EXPECT_EQ(kept.ranks(4).silence(), "it did not answer within 4 s");
  // Of the stacks, which each rank's evidence has as well, the first groups.
  ASSERT_EQ(kept.stacks_size(), 1);
  EXPECT_EQ(kept.stacks(0).ranks(0), 0u);
  EXPECT_EQ(kept.waits_size(), 1);
  EXPECT_EQ(kept.sentence(), Stuck().sentence());
  EXPECT_LT(kept.ByteSizeLong(), 3000u + 1000u);
}

TEST(EvidenceWithinTest, TheArchiveSaysWhoWasLeftOut) {
  v1::GetJobResponse job;
  job.mutable_summary()->set_job("mnist");
  const auto packed = PackEvidence(job, EvidenceWithin(Stuck(), 3000), "a test", absl::FromUnixSeconds(7));
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::string directory = testing::TempDir();
  std::ofstream(directory + "/within.tar.gz", std::ios::binary) << *packed;
  ASSERT_EQ(system(("cd '" + directory + "' && tar xzf within.tar.gz").c_str()), 0);
  const auto read = [&directory](const std::string& name) {
    std::ifstream file(absl::StrCat(directory, "/farandole-mnist/", name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_THAT(read("README.txt"), HasSubstr("ranks 1,3: left out: this archive takes 3000 bytes of evidence"));
  EXPECT_THAT(read("rank-2.json"), HasSubstr("of-rank-2="));
  EXPECT_THAT(read("rank-3.json"), HasSubstr("left out"));
  EXPECT_THAT(read("diagnosis.json"), Not(HasSubstr("of-rank-3=")));
}

}  // namespace
}  // namespace farandole
