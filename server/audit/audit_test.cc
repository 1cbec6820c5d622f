#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/retry/retry_delay.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/audit/audit_chain.h"
#include "server/audit/audit_log.h"
#include "server/audit/change_bounds.h"

namespace farandole {
namespace {

// A disk that takes its time: while it is set, a thread that syncs says so and waits.
struct SlowDisk {
  absl::Notification is_asked;
  absl::Notification is_done;
};
std::atomic<SlowDisk*> slow_disk{nullptr};

// The directories that were synced, and how many more of them the disk fails to sync.
std::vector<std::string> synced_directories;
int directories_to_fail = 0;

}  // namespace
}  // namespace farandole

// In the place of the C library's, for this whole program.
extern "C" int fdatasync(int file) {
  if (farandole::SlowDisk* disk = farandole::slow_disk.exchange(nullptr); disk != nullptr) {
    disk->is_asked.Notify();
    disk->is_done.WaitForNotification();
  }
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

extern "C" int fsync(int file) {
  const std::filesystem::path path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", file));
  if (std::filesystem::is_directory(path)) {
    if (farandole::directories_to_fail > 0) {
      --farandole::directories_to_fail;
      errno = EIO;
      return -1;
    }
    farandole::synced_directories.push_back(path);
  }
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    std::string made = ::testing::TempDir() + "/audit-XXXXXX";
    EXPECT_NE(mkdtemp(made.data()), nullptr);
    directory_ = made + "/audit";
  }

  AuditChain Open(AuditChain::Bounds bounds = AuditChain::Bounds()) const {
    absl::StatusOr<AuditChain> chain = AuditChain::Open(directory_, "x", bounds);
    EXPECT_TRUE(chain.ok()) << chain.status();
    return *std::move(chain);
  }
  ChainVerdict Verify(const std::string& name = "x") const { return VerifyChain(directory_, name).value(); }
  std::string File(uint64_t number) const { return ChainFile(directory_, "x", number); }
  std::vector<std::string> Lines(const std::string& path) const {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  void Write(const std::string& path, const std::vector<std::string>& lines) const {
    std::ofstream file(path);
    for (const std::string& line : lines) file << line << "\n";
  }

  std::string directory_;
};

TEST_F(AuditTest, LinesAreChainedAlsoOverARestart) {
  for (int life = 0; life < 2; ++life) {
    AuditChain chain = Open();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(chain.Add({{"method", absl::StrCat("m", i)}}).ok());
  }
  const ChainVerdict verdict = Verify();
  EXPECT_EQ(verdict.broken, "");
  EXPECT_EQ(verdict.lines, 6u);
  EXPECT_EQ(verdict.last_seq, 6u);
  struct stat facts = {};
  ASSERT_EQ(stat(File(1).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(directory_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST_F(AuditTest, TheFirstBrokenLineIsNamed) {
  AuditChain chain = Open();
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(chain.Add({{"method", absl::StrCat("m", i)}}).ok());
  const std::vector<std::string> lines = Lines(File(1));
  std::vector<std::string> changed = lines;
  changed[2].replace(changed[2].find("m3"), 2, "mX");
  Write(File(1), changed);
  EXPECT_THAT(Verify().broken,
              EndsWith("x-000001.jsonl:4: line 3 before it was changed after this one was written, or this one was"));
  changed = lines;
  changed.erase(changed.begin() + 1);
  Write(File(1), changed);
  EXPECT_THAT(Verify().broken, EndsWith("x-000001.jsonl:2: its number is 3, and that of the line before it 1"));
  changed = lines;
  changed[4] = "{";
  Write(File(1), changed);
  EXPECT_THAT(Verify().broken, EndsWith("x-000001.jsonl:5: it is no line of the log"));
  // Lines that were cut off at the end show by the hash of the last one only.
  changed = {lines[0], lines[1]};
  Write(File(1), changed);
  EXPECT_EQ(Verify().broken, "");
  EXPECT_EQ(Verify().last_seq, 2u);
}

TEST_F(AuditTest, AChainThatWasWrittenAnewShowsByAHashThatWasKeptElsewhereOnly) {
  AuditChain chain = Open();
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(chain.Add({{"method", absl::StrCat("m", i)}}).ok());
  const ChainVerdict kept = Verify();
  ASSERT_TRUE(chain.Add({{"method", "m4"}}).ok());
  std::vector<std::string> lines = Lines(File(1));
  const auto is_next = [&] { return Json::parse(lines[kept.last_seq])["prev"] == kept.last_hash; };
  EXPECT_TRUE(is_next()) << "the line after the last one has its hash";
  lines[0].replace(lines[0].find("m1"), 2, "mX");
  for (size_t i = 1; i < lines.size(); ++i) {
    Json json = Json::parse(lines[i]);
    json["prev"] = absl::BytesToHexString(Sha256(lines[i - 1]));
    lines[i] = json.dump();
  }
  Write(File(1), lines);
  EXPECT_EQ(Verify().broken, "");
  EXPECT_FALSE(is_next());
}

TEST_F(AuditTest, FilesAreBoundedAndTheChainGoesOnThroughThem) {
  AuditChain::Bounds bounds;
  bounds.file_bytes = 500;
  bounds.files = 3;
  {
    AuditChain chain = Open(bounds);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(chain.Add({{"method", std::string(100, 'm')}}).ok());
  }
  const std::vector<uint64_t> numbers = FilesOfChain(directory_, "x").value();
  EXPECT_EQ(numbers.size(), 3u);
  EXPECT_GT(numbers.front(), 1u);
  const ChainVerdict verdict = Verify();
  EXPECT_EQ(verdict.broken, "");
  EXPECT_EQ(verdict.last_seq, 40u);
  EXPECT_EQ(verdict.lines, verdict.last_seq - verdict.first_seq + 1);
  std::filesystem::remove(File(numbers[1]));
  EXPECT_THAT(Verify().broken, HasSubstr("its number is"));
}

TEST_F(AuditTest, AFileIsInItsDirectoryBeforeItsFirstLineIsThere) {
  AuditChain::Bounds bounds;
  bounds.file_bytes = 500;
  { AuditChain chain = Open(bounds); }
  const std::filesystem::path directory = std::filesystem::canonical(directory_);
  synced_directories.clear();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Open(bounds).Add({{"method", std::string(100, 'm')}}).ok());
  EXPECT_THAT(synced_directories, IsEmpty()) << "its lines need not survive a loss of power";
  bounds.is_synced = true;
  AuditChain chain = Open(bounds);
  EXPECT_THAT(synced_directories, ElementsAre(directory.parent_path(), directory));
  synced_directories.clear();
  const size_t before = FilesOfChain(directory_, "x")->size();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(chain.Add({{"method", std::string(100, 'm')}}).ok());
  const size_t more = FilesOfChain(directory_, "x")->size() - before;
  EXPECT_GT(more, 2u);
  EXPECT_EQ(synced_directories, std::vector<std::string>(more, directory));
  // Where it cannot be synced, no line goes into the new file.
  directories_to_fail = 2;
  uint64_t lines = Verify().lines;
  for (int i = 0; i < 100 && chain.Add({{"method", "m"}}).ok(); ++i) ++lines;
  EXPECT_EQ(chain.Add({{"method", "m"}}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(directories_to_fail, 0);
  EXPECT_EQ(Verify().lines, lines);
  EXPECT_TRUE(chain.Add({{"method", "m"}}).ok());
  EXPECT_EQ(Verify().lines, lines + 1);
  EXPECT_EQ(Verify().broken, "");
}

TEST_F(AuditTest, ATornLastLineIsToldAndMended) {
  {
    AuditChain chain = Open();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(chain.Add({{"method", "m"}}).ok());
  }
  std::ofstream(File(1), std::ios::app) << R"({"time":"2026-)";
  EXPECT_TRUE(Verify().is_torn);
  EXPECT_EQ(Verify().broken, "");
  AuditChain chain = Open();
  ASSERT_TRUE(chain.Add({{"method", "after"}}).ok());
  const std::vector<std::string> lines = Lines(File(1));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], HasSubstr("of which 14 bytes were there"));
  EXPECT_EQ(Verify().broken, "");
  EXPECT_FALSE(Verify().is_torn);
}

TEST_F(AuditTest, AKilledWriterLeavesAChainThatGoesOn) {
  for (int round = 0; round < 10; ++round) {
    int ready[2] = {};
    ASSERT_EQ(pipe(ready), 0);
    const pid_t writer = fork();
    if (writer == 0) {
      AuditChain::Bounds bounds;
      bounds.file_bytes = 20000;
      auto chain = AuditChain::Open(directory_, "x", bounds);
      for (int i = 0; chain.ok(); ++i) {
        if (!chain->Add({{"method", std::string(1000, 'm')}}).ok()) _exit(1);
        if (i == 20 + round && write(ready[1], "r", 1) != 1) _exit(1);
      }
      _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    const ChainVerdict verdict = Verify();
    ASSERT_EQ(verdict.broken, "") << round;
    ASSERT_GE(verdict.last_seq, 20u * static_cast<uint64_t>(round + 1));
  }
}

TEST_F(AuditTest, AFloodOfDenialsIsCountedAndPushesOutNoChange) {
  const Access root{"default", v1::ROOT, "0123456789abcdef"};
  {
    const auto log = AuditLog::Open(directory_).value();
    const absl::Time now = absl::UnixEpoch();
    ASSERT_TRUE(log->AllowChange(root, {"AccessService.CreateToken", "ipv4:10.0.0.7:9", "tenant team"}, now).ok());
    for (int i = 0; i < 100'000; ++i) {
      const std::string peer = absl::StrCat("ipv4:10.0.0.", i % 50, ":", i);
      log->TellDenied("", {"MonitorService.ListJobs", peer, ""}, "UNAUTHENTICATED", "not known", now);
    }
    log->TellDenied("", {"MonitorService.ListJobs", "ipv4:10.0.0.1:1", ""}, "UNAUTHENTICATED", "not known",
                    now + AuditLog::kWindow);
  }
  EXPECT_EQ(Verify(kChanges).lines, 1u);
  EXPECT_EQ(Verify(kDenials).broken, "");
  const std::vector<std::string> lines = Lines(ChainFile(directory_, kDenials, 1));
  ASSERT_EQ(lines.size(), 20u + 20u + 1u + 1u);
  uint64_t told = 0;
  for (const std::string& line : lines) {
    const Json json = Json::parse(line);
    told += json.contains("count") ? json["count"].get<uint64_t>() : 1;
  }
  EXPECT_EQ(told, 100'001u);
}

TEST_F(AuditTest, ADenialDoesNotWaitUntilAChangeIsOnDisk) {
  const auto log = AuditLog::Open(directory_).value();
  SlowDisk disk;
  slow_disk = &disk;
  std::thread changing([&] {
    EXPECT_TRUE(log->AllowChange(Access(), {"AdminService.AbortJob", "", "job a/b"}, absl::UnixEpoch()).ok());
  });
  disk.is_asked.WaitForNotification();
  absl::Notification is_told;
  std::thread denying([&] {
    log->TellDenied("", {"MonitorService.ListJobs", "", ""}, "UNAUTHENTICATED", "not known", absl::UnixEpoch());
    is_told.Notify();
  });
  EXPECT_TRUE(is_told.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_EQ(Verify(kDenials).lines, 1u);
  disk.is_done.Notify();
  changing.join();
  denying.join();
}

TEST_F(AuditTest, ChangesThatFailAreBoundedForEachCaller) {
  const Access bob{"team", v1::LAUNCHER, "0123456789abcdef"}, alice{"team", v1::LAUNCHER, "fedcba9876543210"};
  const Access root{"default", v1::ROOT, "0000000000000001"};
  const AuditLog::Call call = {"AdminService.AbortJob", "ipv4:10.0.0.7:9", "job team/train"};
  const absl::Status denied = absl::PermissionDeniedError("not his job");
  const auto log = AuditLog::Open(directory_).value();
  absl::Time now = absl::UnixEpoch();
  const auto fails = [&](const Access& caller) {
    const absl::Status allowed = log->AllowChange(caller, call, now);
    if (allowed.ok()) log->TellFailed(caller, call, denied, now);
    return allowed;
  };
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(fails(bob).ok()) << i;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(fails(bob).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Verify(kChanges).lines, 400u);
  EXPECT_EQ(
      fails(bob).message(),
      "nothing was changed: 200 changes of token 0123456789abcdef (launcher of tenant team) have failed, and in the "
      "long run one in 1m may; retry after that");
  EXPECT_EQ(RetryDelayOf(fails(bob)), ChangeBounds::kFailurePause);
  // Those of others, and changes that do not fail, have no such bound.
  for (int i = 0; i < 201; ++i) ASSERT_TRUE(log->AllowChange(alice, call, now).ok());
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(fails(root).ok());
  now += ChangeBounds::kFailurePause;
  EXPECT_TRUE(fails(bob).ok());
  EXPECT_FALSE(fails(bob).ok());
}

TEST_F(AuditTest, ChangesAreBoundedForACallerAndForItsTenant) {
  const auto caller = [](int i, v1::Role role) { return Access{"team", role, absl::StrCat(1000000000000000 + i)}; };
  const AuditLog::Call call = {"AdminService.AbortJob", "ipv4:10.0.0.7:9", "job team/train"};
  AuditLog::Call revoke = {"AccessService.RevokeToken", "ipv4:10.0.0.7:9", "token 0123456789abcdef"};
  revoke.ends_good_token = [] { return true; };
  const auto log = AuditLog::Open(directory_).value();
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(log->AllowChange(caller(0, v1::ADMIN), call, now).ok()) << i;
  for (int i = 0; i < 1000; ++i) {
    const absl::Status refused = log->AllowChange(caller(0, v1::ADMIN), i % 2 == 0 ? call : revoke, now);
    ASSERT_EQ(
        refused.message(),
        "nothing was changed: token 1000000000000000 (admin of tenant team) has made 500 changes, and in the long "
        "run one in 1s may; retry after that");
    ASSERT_EQ(RetryDelayOf(refused), ChangeBounds::kChangePause);
  }
  EXPECT_EQ(Verify(kChanges).lines, 500u);
  for (int i = 500; i < 2000; ++i) ASSERT_TRUE(log->AllowChange(caller(i, v1::LAUNCHER), call, now).ok()) << i;
  EXPECT_EQ(log->AllowChange(caller(1, v1::ADMIN), call, now).message(),
            "nothing was changed: tenant team has made 2000 changes, and in the long run one in 250ms may; retry after "
            "that");
  EXPECT_TRUE(log->AllowChange(caller(1, v1::ADMIN), revoke, now).ok()) << "of the token that makes them, perhaps";
  EXPECT_FALSE(log->AllowChange(caller(2, v1::ADMIN), revoke, now).ok()) << "others end it already";
  revoke.target = "token fedcba9876543210";
  EXPECT_TRUE(log->AllowChange(caller(2, v1::ADMIN), revoke, now).ok());
  revoke.ends_good_token = [] { return false; };
  revoke.target = "token 00000000fedcba98";
  EXPECT_FALSE(log->AllowChange(caller(2, v1::ADMIN), revoke, now).ok()) << "it has ended, so nothing would change";
  EXPECT_TRUE(log->AllowChange(caller(2, v1::CLUSTER_OPERATOR), call, now).ok());
  EXPECT_TRUE(log->AllowChange({"other", v1::LAUNCHER, "0123456789abcdef"}, call, now).ok());
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(log->AllowChange(caller(3, v1::ROOT), call, now).ok());
  now += ChangeBounds::kChangePause;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(log->AllowChange(caller(4 + i, v1::LAUNCHER), call, now).ok());
  EXPECT_FALSE(log->AllowChange(caller(8, v1::LAUNCHER), call, now).ok());
  EXPECT_FALSE(log->AllowChange(caller(0, v1::ADMIN), call, now).ok()) << "the tenant's";
}

TEST_F(AuditTest, NobodyAsksForLongWhetherARevocationEndsAGoodToken) {
  const auto caller = [](int i) { return Access{"team", v1::ADMIN, absl::StrCat(1000000000000000 + i)}; };
  const AuditLog::Call call = {"AdminService.AbortJob", "ipv4:10.0.0.7:9", "job team/train"};
  const auto log = AuditLog::Open(directory_).value();
  absl::Time now = absl::UnixEpoch();
  bool ends_good_token = false;
  int asked = 0;
  AuditLog::Call revoke = {"AccessService.RevokeToken", "ipv4:10.0.0.7:9", "token 0123456789abcdef"};
  revoke.ends_good_token = [&] {
    ++asked;
    return ends_good_token;
  };
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(log->AllowChange(caller(0), revoke, now).ok()) << i;
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(log->AllowChange(caller(0), revoke, now).ok());
  for (int i = 500; i < 2000; ++i) ASSERT_TRUE(log->AllowChange(caller(i), call, now).ok()) << i;
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(log->AllowChange(caller(0), revoke, now).ok());
  ASSERT_TRUE(log->AllowChange({"default", v1::ROOT, "0000000000000001"}, revoke, now).ok());
  EXPECT_EQ(asked, 0) << "where there was room, where the caller had none, and of the cluster";
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(RetryDelayOf(log->AllowChange(caller(1), revoke, now)),
              ChangeBounds::kChangePause / ChangeBounds::kTenantTimes);
  }
  EXPECT_EQ(asked, 1);
  now += ChangeBounds::kChangePause / ChangeBounds::kTenantTimes;
  ASSERT_TRUE(log->AllowChange(caller(2), call, now).ok());
  // That of another caller is asked for, and may end one in the meantime; a series of those that do comes through.
  ends_good_token = true;
  for (int i = 0; i < 100; ++i) {
    revoke.target = absl::StrCat("token ", 1000000000000000 + i);
    EXPECT_FALSE(log->AllowChange(caller(1), revoke, now).ok());
    EXPECT_TRUE(log->AllowChange(caller(2), revoke, now).ok());
  }
  EXPECT_EQ(asked, 101);
  now += ChangeBounds::kChangePause;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(log->AllowChange(caller(4 + i), call, now).ok());
  revoke.target = "token 0123456789abcdef";
  EXPECT_TRUE(log->AllowChange(caller(1), revoke, now).ok());
  EXPECT_EQ(asked, 102);
}

TEST_F(AuditTest, LinesAreShortWhateverTheirTextsAre) {
  {
    const auto log = AuditLog::Open(directory_).value();
    const Access caller = {"team", v1::ADMIN, "0123456789abcdef"};
    for (const char* character : {"\x01", "\"", "\xC3\xA4", "\xFF"}) {
      std::string text;
      for (int i = 0; i < 10'000; ++i) text += character;
      const AuditLog::Call call = {text, "ipv4:10.0.0.7:9", text};
      ASSERT_TRUE(log->AllowChange(caller, call, absl::UnixEpoch()).ok());
      log->TellFailed(caller, call, absl::InternalError(text), absl::UnixEpoch());
      log->TellDenied("token 0123456789abcdef", call, "INTERNAL", text, absl::UnixEpoch());
    }
  }
  std::vector<std::string> lines = Lines(ChainFile(directory_, kChanges, 1));
  const std::vector<std::string> denials = Lines(ChainFile(directory_, kDenials, 1));
  lines.insert(lines.end(), denials.begin(), denials.end());
  EXPECT_EQ(lines.size(), 12u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 3500u) << line;
}

TEST_F(AuditTest, LinesThatWereTakenFromTheBeginningAreTold) {
  AuditChain::Bounds bounds;
  bounds.file_bytes = 500;
  AuditChain chain = Open(bounds);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(chain.Add({{"method", std::string(100, 'm')}}).ok());
  std::vector<std::string> lines = Lines(File(1));
  ASSERT_GT(lines.size(), 1u);
  lines.erase(lines.begin());
  Write(File(1), lines);
  EXPECT_THAT(Verify().broken,
              EndsWith("x-000001.jsonl:1: its number is 2, and the first line of the first file has number 1"));
  // As they go when there are too many.
  const size_t gone = lines.size() + 1;
  std::filesystem::remove(File(1));
  EXPECT_EQ(Verify().broken, "");
  EXPECT_EQ(Verify().first_seq, gone + 1);
}

TEST_F(AuditTest, AChangeThatCannotBeAuditedIsNotAllowed) {
  const auto log = AuditLog::Open(directory_).value();
  // The files are there, and each write to them fails.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const AuditLog::Call call = {"AdminService.AbortJob", "", "job a/b"};
  const absl::Status refused = log->AllowChange(Access(), call, absl::UnixEpoch());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("nothing was changed, since that could not be audited"));
  EXPECT_TRUE(log->AllowChange(Access(), call, absl::UnixEpoch()).ok());
  EXPECT_EQ(Verify(kChanges).broken, "");
}

}  // namespace
}  // namespace farandole
