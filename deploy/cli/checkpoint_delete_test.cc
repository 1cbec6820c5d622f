// `farandole checkpoint delete`, and lists of more than one page, against a coordinator in this process.
#include <sys/stat.h>

#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/cli/checkpoint_command.h"
#include "deploy/cli/job_command.h"
#include "farandole/v1/monitor.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CheckpointDeleteTest : public CoordinatorFixture {
 protected:
  template <typename Options>
  Options Ask(Options options) const {
    options.source.coordinator = coordinator_->address();
    options.source.token_file = coordinator_->token_file();
    return options;
  }
  int Delete(int64_t step, bool is_json = false, const std::string& job = "train") {
    out_.str("");
    err_.str("");
    DeleteCheckpointOptions options = Ask(DeleteCheckpointOptions());
    options.job = job;
    options.name = "checkpoint";
    options.step = step;
    options.json = is_json;
    return DeleteCheckpoint(options, out_, err_);
  }
  json Catalogue() {
    std::ostringstream out;
    CheckpointOptions options = Ask(CheckpointOptions());
    options.json = true;
    EXPECT_EQ(ListCheckpoints(options, absl::Now(), out, err_), 0) << err_.str();
    return json::parse(out.str());
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CheckpointDeleteTest, TheRowGoesAndTheFileThatStaysIsNamed) {
  Start();
  const auto workers = Train("train", 1);
  for (const int64_t step : {1, 2, 3}) WriteCheckpoint(workers[0].get(), "train", step);
  EXPECT_EQ(Delete(2), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "checkpoint checkpoint at step 2 of job train is no longer in the catalogue; its file stays, of 1 B: "
            "/data/checkpoint.t2.bin\n"
            "to free the space, remove it and /data/checkpoint.t2.bin.json on a host that has them\n");
  EXPECT_EQ(Delete(3, true), 0) << err_.str();
  EXPECT_EQ(json::parse(out_.str())["path"], "/data/checkpoint.t3.bin");
  const json left = Catalogue();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["step"], 1);
  EXPECT_EQ(Delete(2), 1);
  EXPECT_THAT(err_.str(), HasSubstr("the job has no checkpoint checkpoint at step 2"));
  EXPECT_EQ(Delete(1, false, "trian"), 1);
  EXPECT_THAT(err_.str(), HasSubstr("train"));
}

TEST_F(CheckpointDeleteTest, ListsOfMoreThanOnePageHaveEachRowOnce) {
  constexpr int kJobs = 2503;
  ASSERT_EQ(mkdir(options_.state_dir.c_str(), 0700), 0);
  {
    const auto store = OpenRocksdbStore(options_.state_dir + "/store").value();
    const uint64_t revision = AcquireAndWait(store.get(), "test").value();
    for (int i = 0; i < kJobs; ++i) {
      v1::JobSummary job;
      job.set_tenant("default");
      job.set_job(absl::StrCat("job-", i));
      job.set_state(v1::JOB_STATE_FINISHED);
      // Several of one moment.
      job.set_created_unix_ms(1'700'000'000'000 + i / 7);
      job.set_ended_unix_ms(absl::ToUnixMillis(absl::Now()));
      const std::string key = absl::StrCat("summary/default/", job.job());
      ASSERT_TRUE(CommitAndWait(store.get(), "test", revision, StoreBatch{{}, {{key, job.SerializeAsString()}}}).ok());
    }
  }
  Start();
  JobCommandOptions options = Ask(JobCommandOptions());
  options.json = true;
  EXPECT_EQ(ListJobs(options, absl::Now(), out_, err_), 0) << err_.str();
  std::set<std::string> names;
  const json listed = json::parse(out_.str());
  for (const json& job : listed) names.insert(job["job"].get<std::string>());
  EXPECT_EQ(listed.size(), static_cast<size_t>(kJobs));
  EXPECT_EQ(names.size(), static_cast<size_t>(kJobs));
}

}  // namespace
}  // namespace farandole
