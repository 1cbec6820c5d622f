// The fate of a checkpoint's file when the coordinator's answer is lost: a scripted coordinator with the real gate.
#include "worker/member/checkpoint_session.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "checkpoint/gate.h"
#include "checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/control/scripted_coordinator.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kCatalogue[] = "00c0ffee00c0ffee";

// How the coordinator treats a commit.
struct Fate {
  bool is_carried_out = false;
  // OK: it is answered.
  grpc::StatusCode code = grpc::OK;
};

class CheckpointSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = absl::StrCat(testing::TempDir(), "/session.XXXXXX");
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    directory_ = std::filesystem::canonical(made).string();
    coordinator_.on_begin = [this](const v1::BeginCheckpointRequest& request, v1::BeginCheckpointResponse* response) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (on_begin_) std::exchange(on_begin_, nullptr)();
      present_.writer = request.incarnation();
      return Answer(gate_->Begin(request, present_, &writes_), response);
    };
    coordinator_.on_commit = [this](const v1::CommitCheckpointRequest& request,
                                    v1::CommitCheckpointResponse* response) { return OnCommit(request, response); };
    ASSERT_TRUE(coordinator_.Listen());
    WorkerOptions options;
    options.coordinator = coordinator_.address();
    options.token = "secret";
    options.job = "mnist";
    options.join_timeout = absl::Seconds(60);
    options.outage_limit = absl::Seconds(60);
    absl::StatusOr<std::unique_ptr<CoordinatorLink>> link = CoordinatorLink::Join(options, {}, {"unix:x"}, nullptr);
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
    session_ = std::make_unique<CheckpointSession>(link_.get(), "mnist", 0, 1);
  }
  void TearDown() override {
    session_.reset();
    link_.reset();
    std::filesystem::remove_all(directory_);
  }

  template <typename Response>
  static grpc::Status Answer(const absl::StatusOr<Response>& answer, Response* response) {
    if (answer.ok()) {
      *response = *answer;
      if constexpr (std::is_same_v<Response, v1::BeginCheckpointResponse>) response->set_catalogue(kCatalogue);
      return grpc::Status::OK;
    }
    return {static_cast<grpc::StatusCode>(answer.status().code()), std::string(answer.status().message())};
  }

  grpc::Status OnCommit(const v1::CommitCheckpointRequest& request, v1::CommitCheckpointResponse* response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (on_commit_) std::exchange(on_commit_, nullptr)();
    asked_.push_back(request.give_up() ? "give up" : "commit");
    std::vector<Fate>& fates = request.give_up() ? fates_of_giving_up_ : fates_;
    Fate fate = {true, grpc::OK};
    if (!fates.empty()) {
      fate = fates.front();
      fates.erase(fates.begin());
    }
    grpc::Status answer = {fate.code, "lost on its way"};
    if (!fate.is_carried_out) return answer;
    const grpc::Status carried_out = Answer(gate_->Commit(request, present_, absl::Now(), &writes_), response);
    return fate.code == grpc::OK ? carried_out : answer;
  }

  // Writes and commits a checkpoint of the next step.
  absl::StatusOr<std::string> Save(bool replace = false) {
    const absl::StatusOr<CheckpointSession::Begun> temporary =
        session_->Begin(directory_, "model", ++step_, "pt", replace);
    if (!temporary.ok()) return temporary.status();
    std::ofstream(temporary->path) << "weights of step " << step_;
    return session_->Commit(temporary->number);
  }

  std::vector<std::string> InCatalogue() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> paths;
    const v1::ListCheckpointsResponse list = gate_->List();
    for (const v1::Checkpoint& checkpoint : list.checkpoints()) {
      EXPECT_TRUE(VerifyFile(checkpoint).ok()) << VerifyFile(checkpoint);
      paths.push_back(checkpoint.path());
    }
    return paths;
  }
  // The checkpoints' files, without their manifests.
  std::vector<std::string> OnDisk() const {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.path().extension() != ".json") paths.insert(entry.path().string());
    }
    return {paths.begin(), paths.end()};
  }

  // Everything that gRPC may answer, but UNAVAILABLE, after which the client tries again for ten seconds.
  static std::vector<grpc::StatusCode> Codes() {
    std::vector<grpc::StatusCode> codes;
    for (int code = 1; code <= 16; ++code) {
      if (code != grpc::StatusCode::UNAVAILABLE) codes.push_back(static_cast<grpc::StatusCode>(code));
    }
    return codes;
  }

  std::string directory_;
  std::mutex mutex_;
  // Guarded by mutex_: the server's threads.
  std::unique_ptr<CheckpointGate> gate_ = std::make_unique<CheckpointGate>("default", "mnist");
  CheckpointGate::Present present_ = {1, true, ""};
  CheckpointGate::Writes writes_;
  std::vector<Fate> fates_;
  std::vector<Fate> fates_of_giving_up_;
  std::vector<std::string> asked_;
  // Each runs in the next call of its name.
  std::function<void()> on_begin_;
  std::function<void()> on_commit_;

  ScriptedCoordinator coordinator_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<CheckpointSession> session_;
  int64_t step_ = 0;
};

TEST_F(CheckpointSessionTest, ACommitWhoseAnswerWasLostIsFoundInTheCatalogueWhateverTheNextAttemptIsAnswered) {
  std::vector<std::string> committed;
  for (const grpc::StatusCode code : Codes()) {
    // The coordinator carries out the first, and its answer is lost; the second reaches another coordinator, which does
    // not know of it.
    fates_ = {{true, grpc::StatusCode::UNAVAILABLE}, {false, code}};
    const absl::StatusOr<std::string> path = Save();
    ASSERT_TRUE(path.ok()) << code << ": " << path.status();
    committed.push_back(*path);
    EXPECT_EQ(InCatalogue(), committed) << code;
    EXPECT_EQ(OnDisk(), committed) << code;
  }
}

TEST_F(CheckpointSessionTest, AShutdownWaitsForTheCommitOfAnotherThread) {
  EXPECT_TRUE(session_->AwaitCommit(nullptr).ok()) << "there is none";
  absl::Notification has_begun, may_end;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    on_commit_ = [&] {
      has_begun.Notify();
      may_end.WaitForNotification();
    };
  }
  absl::StatusOr<std::string> saved;
  std::thread writer([&] { saved = Save(); });
  has_begun.WaitForNotification();
  EXPECT_EQ(session_->AwaitCommit([] { return true; }),
            absl::AbortedError("interrupted while another thread was committing a checkpoint"));
  int asked = 0;
  EXPECT_TRUE(session_
                  ->AwaitCommit([&] {
                    if (++asked == 2) may_end.Notify();
                    return false;
                  })
                  .ok());
  EXPECT_GE(asked, 2);
  EXPECT_THAT(InCatalogue(), SizeIs(1)) << "the wait has ended before the commit";
  writer.join();
  EXPECT_TRUE(saved.ok()) << saved.status();
}

TEST_F(CheckpointSessionTest, APathThatMessagesCannotHoldIsRefusedAndNoFileIsLeft) {
  const std::string directory = directory_ + "/gr\xF6\xDF";
  const absl::Status refused = session_->Begin(directory, "m", 1, "bin", /*replace=*/false).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "/gr\\xf6\\xdf/m-step-")) << refused;
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Begin(directory_, "gr\xF6\xDF", 1, "bin", false).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Find(directory_, "gr\xF6\xDF", -1).status()));
  EXPECT_TRUE(Save().ok());
}

TEST_F(CheckpointSessionTest, ACommitThatIsCarriedOutAndAnsweredByAnErrorIsFoundInTheCatalogue) {
  std::vector<std::string> committed;
  for (const grpc::StatusCode code : Codes()) {
    fates_ = {{true, code}};
    const absl::StatusOr<std::string> path = Save();
    ASSERT_TRUE(path.ok()) << code << ": " << path.status();
    committed.push_back(*path);
    EXPECT_EQ(InCatalogue(), committed) << code;
    EXPECT_EQ(OnDisk(), committed) << code;
  }
}

TEST_F(CheckpointSessionTest, AFileThatWasNotCommittedGoesOnlyWhenItNeverCanBe) {
  for (const grpc::StatusCode code : Codes()) {
    fates_ = {{false, code}};
    const absl::StatusOr<std::string> path = Save();
    EXPECT_FALSE(path.ok()) << code;
    EXPECT_THAT(OnDisk(), IsEmpty()) << code;
    EXPECT_THAT(InCatalogue(), IsEmpty()) << code;
    // An attempt that comes in late.
    v1::CommitCheckpointRequest late;
    late.set_incarnation(link_->incarnation());
    late.mutable_checkpoint()->set_name("model");
    late.mutable_checkpoint()->set_step(step_);
    late.mutable_checkpoint()->set_token(gate_->last_token());
    late.mutable_checkpoint()->set_path(absl::StrCat("/x.t", gate_->last_token(), ".pt"));
    late.mutable_checkpoint()->set_sha256(std::string(32, 's'));
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(gate_->Commit(late, present_, absl::Now(), &writes_).status().code(), absl::StatusCode::kAborted) << code;
  }
}

TEST_F(CheckpointSessionTest, WithoutAWordOfTheCatalogueTheFileStaysAndIsNamed) {
  for (const grpc::StatusCode code : Codes()) {
    const std::vector<std::string> before = OnDisk();
    fates_ = {{false, code}};
    fates_of_giving_up_ = {{false, code}};
    const absl::StatusOr<std::string> path = Save();
    EXPECT_FALSE(path.ok()) << code;
    const std::vector<std::string> after = OnDisk();
    ASSERT_EQ(after.size(), before.size() + 1) << code;
    EXPECT_THAT(path.status().message(), HasSubstr(absl::StrCat("the file stays: ", after.back()))) << code;
  }
  // A coordinator that has lost its state knows of no token, and says nothing about what it was before.
  const size_t kept = OnDisk().size();
  const absl::StatusOr<CheckpointSession::Begun> temporary = session_->Begin(directory_, "model", ++step_, "pt", false);
  ASSERT_TRUE(temporary.ok()) << temporary.status();
  std::ofstream(temporary->path) << "weights";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gate_ = std::make_unique<CheckpointGate>("default", "mnist");
  }
  EXPECT_EQ(session_->Commit(temporary->number).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OnDisk().size(), kept + 1);
}

TEST_F(CheckpointSessionTest, AWriterThatANewerOneHasFencedRemovesItsFile) {
  const absl::StatusOr<CheckpointSession::Begun> temporary = session_->Begin(directory_, "model", 1, "pt", false);
  ASSERT_TRUE(temporary.ok()) << temporary.status();
  std::ofstream(temporary->path) << "old";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    v1::BeginCheckpointRequest newer;
    newer.set_epoch(2);
    newer.set_incarnation("newer");
    newer.set_name("model");
    newer.set_step(1);
    newer.set_idempotency_key("k");
    ASSERT_TRUE(gate_->Begin(newer, {2, true, "newer"}, &writes_).ok());
  }
  EXPECT_EQ(session_->Commit(temporary->number).status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(OnDisk(), IsEmpty());
  EXPECT_THAT(asked_, ElementsAre("commit", "give up"));
}

// A thread that still writes when the epoch ends calls the session of the next one.
TEST_F(CheckpointSessionTest, AWriterOfAnEarlierEpochDoesNotEndThatOfALaterOne) {
  for (CoordinatorLink* const link : {link_.get(), static_cast<CoordinatorLink*>(nullptr)}) {
    auto earlier = std::make_unique<CheckpointSession>(link, "mnist", 0, 1);
    const absl::StatusOr<CheckpointSession::Begun> old = earlier->Begin(directory_, "old", ++step_, "pt", false);
    ASSERT_TRUE(old.ok()) << old.status();
    earlier.reset();
    EXPECT_EQ(session_->Commit(old->number).status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(session_->Fail(old->number, "no ink").code(), absl::StatusCode::kAborted);
    const absl::StatusOr<CheckpointSession::Begun> temporary = session_->Begin(directory_, "new", step_, "pt", false);
    ASSERT_TRUE(temporary.ok()) << temporary.status();
    std::ofstream(temporary->path) << "half";
    EXPECT_EQ(session_->Commit(old->number).status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(session_->Fail(old->number, "no ink").code(), absl::StatusCode::kAborted);
    session_->Abandon(old->number);
    std::ofstream(temporary->path) << "weights";
    EXPECT_TRUE(session_->Commit(temporary->number).ok());
    EXPECT_EQ(session_->Commit(temporary->number).status().code(), absl::StatusCode::kAborted);
  }
}

// Another job, which has another coordinator, writes the same name and step at the same time.
TEST_F(CheckpointSessionTest, ATokenThatAnotherJobsFileHasIsPassedOver) {
  const std::string theirs = directory_ + "/.model-step-00000001.t1.feedfeedfeedfeed.partial.pt";
  // It comes after this writer has looked for the greatest token on disk.
  on_begin_ = [&] { std::ofstream(theirs) << "half of theirs"; };
  const absl::StatusOr<std::string> first = Save();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(OnDisk(), ElementsAre(theirs, *first));
  EXPECT_THAT(*first, testing::Not(HasSubstr(".t1.")));
}

// Two programs of one name, each alone: a program without a launcher has its file's name for a job.
TEST_F(CheckpointSessionTest, WithoutACoordinatorAWriterReplacesOnlyWhatItWasGrantedToReplace) {
  for (const bool replace : {false, true}) {
    CheckpointSession one(nullptr, "train.py", 0, 1);
    CheckpointSession other(nullptr, "train.py", 0, 1);
    const std::vector<std::string> before = OnDisk();
    std::vector<int64_t> numbers;
    for (CheckpointSession* const session : {&one, &other}) {
      const absl::StatusOr<CheckpointSession::Begun> temporary = session->Begin(directory_, "model", 1, "pt", replace);
      ASSERT_TRUE(temporary.ok()) << temporary.status();
      std::ofstream(temporary->path) << "weights";
      numbers.push_back(temporary->number);
    }
    const absl::StatusOr<std::string> first = one.Commit(numbers[0]);
    const absl::StatusOr<std::string> second = other.Commit(numbers[1]);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
    EXPECT_THAT(OnDisk(), ElementsAre(*first, *second));
    for (const std::string& replaced : before) EXPECT_FALSE(std::filesystem::exists(replaced)) << replaced;
  }
}

// The catalogue has what others have told the coordinator: a worker of an earlier run may have committed any path.
TEST_F(CheckpointSessionTest, AReplacedFileGoesOnlyFromTheDirectoryOfItsSuccessorAndIfItIsOfTheSameJob) {
  const std::string elsewhere = directory_ + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(directory_, directory_ + "/link");
  // As the catalogue names the file that is replaced, the job of its manifest, and whether it goes.
  struct Case {
    std::string named, job;
    bool goes;
  };
  const std::vector<Case> cases = {{elsewhere, "mnist", false},        {directory_ + "/gone", "mnist", false},
                                   {directory_, "mnist", true},        {directory_ + "/link", "mnist", true},
                                   {elsewhere + "/..", "mnist", true}, {directory_, "another", false}};
  for (const auto& [named, job, goes] : cases) {
    const int64_t step = ++step_;
    std::string file;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      v1::BeginCheckpointRequest begin;
      begin.set_epoch(1);
      begin.set_incarnation("earlier");
      begin.set_name("model");
      begin.set_step(step);
      begin.set_idempotency_key(absl::StrCat("earlier ", step));
      const auto granted = gate_->Begin(begin, {1, true, "earlier"}, &writes_);
      ASSERT_TRUE(granted.ok()) << granted.status();
      file = absl::StrCat("victim.t", granted->token(), ".pt");
      v1::CommitCheckpointRequest commit;
      commit.set_incarnation("earlier");
      commit.mutable_checkpoint()->set_name("model");
      commit.mutable_checkpoint()->set_step(step);
      commit.mutable_checkpoint()->set_token(granted->token());
      commit.mutable_checkpoint()->set_path(absl::StrCat(named, "/", file));
      commit.mutable_checkpoint()->set_sha256(std::string(32, 's'));
      const auto committed = gate_->Commit(commit, {1, true, "earlier"}, absl::Now(), &writes_);
      ASSERT_TRUE(committed.ok()) << committed.status();
    }
    const std::string path = absl::StrCat(std::filesystem::exists(named) ? named : directory_, "/", file);
    std::ofstream(path) << "somebody's";
    Manifest manifest;
    manifest.job = job;
    manifest.checkpoint.set_name("model");
    manifest.checkpoint.set_step(step);
    manifest.checkpoint.set_sha256(std::string(32, 's'));
    manifest.checkpoint.set_path(path);
    ASSERT_TRUE(WriteManifest(manifest, path + ".tmp").ok());
    --step_;
    const absl::StatusOr<std::string> written = Save(/*replace=*/true);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(std::filesystem::exists(*written)) << named;
    EXPECT_EQ(std::filesystem::exists(path), !goes) << named;
    EXPECT_EQ(std::filesystem::exists(ManifestPath(path)), !goes) << named;
  }
}

}  // namespace
}  // namespace farandole
