// The deletion of ended jobs, by coordinators in processes of their own that are killed with kill -9.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// More than are deleted at once.
constexpr int kJobs = 250;
constexpr int kCheckpoints = 150;

std::string program;
// How many the test of a start makes.
std::string ended_jobs = "10000";

CoordinatorOptions OptionsFor(const std::string& state_dir) {
  CoordinatorOptions options;
  options.state_dir = state_dir;
  options.sweep_interval = absl::Milliseconds(20);
  return options;
}

// Rows of an ended job with checkpoints, as a coordinator leaves them.
void WriteJob(Store* store, const std::string& job, int checkpoints) {
  const std::string owner = absl::StrCat("default/", job);
  const uint64_t revision = AcquireAndWait(store, owner).value();
  v1::JobRecord record;
  record.set_tenant("default");
  record.set_job(job);
  record.set_state(v1::JOB_STATE_FINISHED);
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  record.set_ended_unix_ms(record.created_unix_ms());
  record.set_last_token(checkpoints);
  StoreBatch batch{{}, {{absl::StrCat("job/", owner), record.SerializeAsString()}}};
  for (int step = 1; step <= checkpoints; ++step) {
    v1::Checkpoint checkpoint;
    checkpoint.set_name("x");
    checkpoint.set_step(step);
    checkpoint.set_token(step);
    checkpoint.set_committed_unix_ms(step);
    batch.puts.push_back({absl::StrFormat("checkpoint/%s/x/%020d", owner, step), checkpoint.SerializeAsString()});
    if (batch.puts.size() < kMaxBatchOperations && step < checkpoints) continue;
    ASSERT_TRUE(CommitAndWait(store, owner, revision, std::exchange(batch, StoreBatch())).ok());
  }
}

// `program make DIRECTORY`: a store of the first schema.
int Make(const std::string& state_dir) {
  const std::unique_ptr<Store> store = OpenRocksdbStore(state_dir + "/store").value();
  for (int i = 0; i < kJobs; ++i) WriteJob(store.get(), absl::StrCat("job-", i), kCheckpoints);
  return 0;
}

// `program fill DIRECTORY JOBS`: ended jobs without checkpoints, with a long history each.
int Fill(const std::string& state_dir, const std::string& jobs) {
  const std::unique_ptr<Store> store = OpenRocksdbStore(state_dir + "/store").value();
  int count = 0;
  if (!absl::SimpleAtoi(jobs, &count)) return 1;
  v1::JobRecord record;
  record.set_tenant("default");
  record.set_state(v1::JOB_STATE_FINISHED);
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  record.set_ended_unix_ms(record.created_unix_ms());
  record.set_reason("all 8 workers of epoch 1 left in order");
  for (int i = 0; i < 30; ++i) {
    v1::HistoryEntry* entry = record.add_history();
    entry->set_at_unix_ms(record.created_unix_ms());
    entry->set_sentence(absl::StrCat("epoch ", i, " formed: all 8 workers joined, as they do time and again"));
  }
  std::promise<void> written;
  std::atomic<int> left{count};
  for (int i = 0; i < count; ++i) {
    const std::string owner = absl::StrCat("default/job-", i);
    record.set_job(absl::StrCat("job-", i));
    store->Acquire(owner, [](const absl::StatusOr<uint64_t>&) {});
    store->Commit(owner, 1, StoreBatch{{}, {{absl::StrCat("job/", owner), record.SerializeAsString()}}},
                  [&](const absl::Status&) {
                    if (--left == 0) written.set_value();
                  });
    // The store's queue is bounded by its callers.
    if (i % 1000 == 999) ScanAndWait(store.get(), "none").IgnoreError();
  }
  written.get_future().wait();
  return 0;
}

// Kills this process when the log tells of the deletion of a job, whose checkpoints are still there then.
class KillAtDeletion : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // At which one.
  explicit KillAtDeletion(int number) : left_(number) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (absl::string_view(message.payload.data(), message.payload.size()) != "deleted") return;
    if (--left_ == 0) kill(getpid(), SIGKILL);
  }
  void flush_() override {}

  int left_;
};

// `program serve DIRECTORY JOBS [DELETIONS]`: a coordinator that keeps so many ended jobs, and dies when it has begun
// to delete so many.
int Serve(const std::string& state_dir, const std::string& jobs, const std::string& deletions) {
  CoordinatorOptions options = OptionsFor(state_dir);
  int number = 0;
  if (absl::SimpleAtoi(deletions, &number))
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<KillAtDeletion>(number)));
  if (!absl::SimpleAtoi(jobs, &options.retention.jobs)) return 1;
  const auto coordinator = Coordinator::Start(options);
  if (!coordinator.ok()) return 1;
  pause();
  return 0;
}

// A process of this program.
class Child {
 public:
  explicit Child(std::vector<std::string> words) : pid_(fork()) {
    if (pid_ != 0) return;
    std::vector<char*> arguments = {program.data()};
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  ~Child() { Kill(); }
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }

 private:
  pid_t pid_;
};

// By job the kinds of its rows in the store, and how many there are of each.
using RowsOfJobs = std::map<std::string, std::map<std::string, int>>;

RowsOfJobs Look(const std::string& state_dir) {
  RowsOfJobs jobs;
  const auto rows = ReadRowsOffline(state_dir + "/store", "");
  EXPECT_TRUE(rows.ok()) << rows.status();
  if (!rows.ok()) return jobs;
  for (const StoreRow& row : *rows) {
    const std::vector<std::string> parts = absl::StrSplit(row.key, '/');
    if (parts.size() >= 3 && absl::StartsWith(parts[2], "job-")) ++jobs[parts[2]][parts[0]];
  }
  return jobs;
}

class RetentionTest : public ::testing::Test {
 protected:
  RetentionTest() {
    std::string made = ::testing::TempDir() + "/retention-XXXXXX";
    EXPECT_NE(mkdtemp(made.data()), nullptr);
    state_dir_ = made + "/state";
    std::filesystem::create_directory(state_dir_);
    std::filesystem::permissions(state_dir_, std::filesystem::perms::owner_all);
    EXPECT_EQ(Child({"make", state_dir_}).Wait(), 0);
  }
  ~RetentionTest() override { std::filesystem::remove_all(state_dir_); }

  std::string state_dir_;
};

TEST_F(RetentionTest, AKillInTheMiddleOfASweepLeavesNoHalfJob) {
  size_t lowest = kJobs, highest = 0;
  // Each time a hundred jobs are being deleted.
  for (const char* deletions : {"1", "20", "5"}) {
    EXPECT_EQ(WTERMSIG(Child({"serve", state_dir_, "0", deletions}).Wait()), SIGKILL);
    int cut_off = 0;
    size_t kept = 0;
    for (const auto& [job, rows] : Look(state_dir_)) {
      if (rows.count("job") > 0) {
        ++kept;
        EXPECT_EQ(rows.at("checkpoint"), kCheckpoints) << job << " is half there";
        EXPECT_EQ(rows.count("gone") + rows.count("purge"), 0u) << job;
      } else {
        EXPECT_EQ(rows.count("gone"), 1u) << job << " is gone, and nothing tells what its name must not repeat";
        if (rows.count("purge") > 0) ++cut_off;
        EXPECT_TRUE(rows.count("purge") > 0 || rows.count("checkpoint") == 0) << job << " has rows that nobody deletes";
      }
    }
    EXPECT_GT(cut_off, 0) << "the kill came between two deletions";
    lowest = std::min(lowest, kept);
    highest = std::max(highest, kept);
  }
  EXPECT_GT(highest, lowest);
  const Child coordinator({"serve", state_dir_, "0"});
  bool is_clean = false;
  for (const absl::Time until = absl::Now() + absl::Seconds(60); !is_clean && absl::Now() < until;) {
    is_clean = true;
    for (const auto& [job, rows] : Look(state_dir_)) is_clean = is_clean && rows.size() == 1 && rows.count("gone") == 1;
  }
  EXPECT_TRUE(is_clean) << "rows are left of jobs that were deleted";
}

// The promise is 2 s for 100,000 (--test_arg=--jobs=100000); fewer are made in less time.
TEST(StartTest, AStartReadsNoMoreOfEndedJobsThanItNeeds) {
  std::string made = ::testing::TempDir() + "/start-XXXXXX";
  ASSERT_NE(mkdtemp(made.data()), nullptr);
  ASSERT_EQ(Child({"fill", made, ended_jobs}).Wait(), 0);
  CoordinatorOptions options;
  options.state_dir = made;
  options.retention.jobs = 1 << 20;
  // The first start brings the store up to date.
  for (const bool is_first : {true, false}) {
    const absl::Time before = absl::Now();
    const auto coordinator = Coordinator::Start(options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    const absl::Duration took = absl::Now() - before;
    std::cout << ended_jobs << " ended jobs: " << (is_first ? "first start, " : "start, ") << took << std::endl;
    if (!is_first) {
      EXPECT_LT(took, absl::Seconds(2));
    }
  }
  std::filesystem::remove_all(made);
}

TEST_F(RetentionTest, AStoreOfALaterVersionIsRefusedAndLeftAsItIs) {
  {
    const std::unique_ptr<Store> store = OpenRocksdbStore(state_dir_ + "/store").value();
    const uint64_t revision = AcquireAndWait(store.get(), "schema").value();
    v1::SchemaRecord later;
    later.set_version(99);
    ASSERT_TRUE(CommitAndWait(store.get(), "schema", revision,
                              StoreBatch{{}, {{"meta/schema", later.SerializeAsString()}}, true})
                    .ok());
  }
  const auto refused = Coordinator::Start(OptionsFor(state_dir_));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("has rows of version 99, and this farandole"), std::string::npos)
      << refused.status();
  EXPECT_EQ(ReadRowsOffline(state_dir_ + "/store", "summary/")->size(), 0u);
}

TEST_F(RetentionTest, TheNewestJobsStay) {
  const Child coordinator({"serve", state_dir_, "7"});
  std::set<std::string> kept;
  // A busy machine takes its time for 243 deletions, with sanitizers.
  for (const absl::Time until = absl::Now() + absl::Seconds(150); kept.size() != 7 && absl::Now() < until;) {
    kept.clear();
    for (const auto& [job, rows] : Look(state_dir_)) {
      if (rows.count("job") > 0) kept.insert(job);
    }
  }
  EXPECT_EQ(kept, (std::set<std::string>{"job-243", "job-244", "job-245", "job-246", "job-247", "job-248", "job-249"}));
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "make") return farandole::Make(argv[2]);
  if (role == "fill") return farandole::Fill(argv[2], argv[3]);
  if (role == "serve") return farandole::Serve(argv[2], argv[3], argc > 4 ? argv[4] : "");
  ::testing::InitGoogleTest(&argc, argv);
  farandole::program = std::filesystem::canonical("/proc/self/exe").string();
  if (absl::StartsWith(role, "--jobs=")) farandole::ended_jobs = role.substr(sizeof("--jobs=") - 1);
  return RUN_ALL_TESTS();
}
