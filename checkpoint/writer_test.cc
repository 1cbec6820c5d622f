#include "checkpoint/writer.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/manifest.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// SHA-256 of "weights".
constexpr char kDigest[] = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c";

constexpr char kCatalogue[] = "00c0ffee00c0ffee";

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class CheckpointWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    // Not below Bazel's folder for the test, which may be in root's home: another user must be able to get to it.
    std::string made = "/tmp/checkpoint.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    directory_ = std::filesystem::canonical(made).string();
  }
  void TearDown() override {
    umount2(directory_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(directory_);
  }

  // Mounts a file system of `kib` KiB over the directory, seen by this process only; false where the system does not
  // allow that.
  bool MountSmallDisk(int kib) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    return mount("tmpfs", directory_.c_str(), "tmpfs", 0, absl::StrCat("size=", kib, "k").c_str()) == 0;
  }

  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      names.insert(entry.path().filename().string());
    return names;
  }
  std::string In(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
};

TEST_F(CheckpointWriterTest, AFinishedFileCarriesStepAndTokenAndHasAManifest) {
  absl::StatusOr<CheckpointWriter> writer =
      CheckpointWriter::Open(directory_ + "/a/b", "model", 100, 7, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->temporary_path(), In("a/b/.model-step-00000100.t7.00c0ffee00c0ffee.partial.pt"));
  EXPECT_EQ(writer->final_path(), In("a/b/model-step-00000100.t7.pt"));
  WriteFile(writer->temporary_path(), "weights");
  const absl::StatusOr<v1::Checkpoint> checkpoint = writer->Finish("mnist", 3);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->name(), "model");
  EXPECT_EQ(checkpoint->step(), 100);
  EXPECT_EQ(checkpoint->token(), 7u);
  EXPECT_EQ(checkpoint->epoch(), 3u);
  EXPECT_EQ(checkpoint->path(), writer->final_path());
  EXPECT_EQ(checkpoint->size_bytes(), 7u);
  EXPECT_EQ(absl::BytesToHexString(checkpoint->sha256()), kDigest);
  EXPECT_EQ(Content(writer->final_path()), "weights");
  EXPECT_FALSE(std::filesystem::exists(writer->temporary_path()));
  EXPECT_TRUE(VerifyFile(*checkpoint).ok());
  const absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(writer->final_path()));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->job, "mnist");
  EXPECT_EQ(manifest->checkpoint.SerializeAsString(), checkpoint->SerializeAsString());
  EXPECT_EQ(writer->Finish("mnist", 3).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointWriterTest, TheGreatestTokenIsThatOfAnyFileOfACheckpoint) {
  EXPECT_EQ(CheckpointWriter::GreatestToken(In("missing")).value(), 0u);
  EXPECT_EQ(CheckpointWriter::GreatestToken(directory_).value(), 0u);
  for (const char* name : {"model-step-00000100.t7.pt", "model-step-00000100.t7.pt.json", "notes.t99.txt",
                           "model-step-1.t12", "model-step-00000002.t99999999999999999999.pt"})
    WriteFile(In(name), "");
  EXPECT_EQ(CheckpointWriter::GreatestToken(directory_).value(), 7u);
  WriteFile(In(".other-step-step-00000001.t11.partial.pt"), "");
  EXPECT_EQ(CheckpointWriter::GreatestToken(directory_).value(), 11u);
}

TEST_F(CheckpointWriterTest, ATokenThatNoCoordinatorHasGivenDoesNotCount) {
  for (const char* name : {"model-step-00000100.t7.pt", "x-step-0.t4611686018427387904.z", "x-step-0.t4294967304.z"})
    WriteFile(In(name), "");
  EXPECT_EQ(CheckpointWriter::GreatestToken(directory_).value(), 7u);
  WriteFile(In("model-step-00000200.t4294967303.pt"), "");
  EXPECT_EQ(CheckpointWriter::GreatestToken(directory_).value(), 4294967304u);
}

TEST_F(CheckpointWriterTest, AnothersFileThatCannotBeRemovedIsInNobodysWay) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make another user's file";
  const std::string planted = In(".model-step-0.t0.00c0ffee00c0ffee.partial");
  WriteFile(planted, "");
  ASSERT_EQ(chown(planted.c_str(), 1234, 1234), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 01777), 0);
  // Root may remove anything; so this thread gives that up for its file accesses.
  setfsuid(65534);
  const absl::Status status = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue).status();
  setfsuid(0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::filesystem::exists(planted));
}

TEST_F(CheckpointWriterTest, AnUnfinishedWriterLeavesNothing) {
  {
    absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
    ASSERT_TRUE(writer.ok()) << writer.status();
    CheckpointWriter moved = *std::move(writer);
    WriteFile(moved.temporary_path(), "half");
    EXPECT_EQ(Files().size(), 1u);
  }
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(CheckpointWriterTest, ADiscardedFileIsGoneWithItsManifest) {
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  WriteFile(writer->temporary_path(), "weights");
  ASSERT_TRUE(writer->Finish("mnist", 1).ok());
  EXPECT_EQ(Files().size(), 2u);
  writer->Discard();
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(CheckpointWriterTest, AnOldWriterIsFencedAndOverwritesNothing) {
  absl::StatusOr<CheckpointWriter> old = CheckpointWriter::Open(directory_, "model", 100, 7, "pt", kCatalogue);
  ASSERT_TRUE(old.ok()) << old.status();
  WriteFile(old->temporary_path(), "old");
  absl::StatusOr<CheckpointWriter> young = CheckpointWriter::Open(directory_, "model", 100, 8, "pt", kCatalogue);
  ASSERT_TRUE(young.ok()) << young.status();
  WriteFile(young->temporary_path(), "young");
  const absl::StatusOr<v1::Checkpoint> finished = young->Finish("mnist", 2);
  ASSERT_TRUE(finished.ok()) << finished.status();

  const absl::Status fenced = old->Finish("mnist", 1).status();
  EXPECT_EQ(fenced.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fenced.message(),
            absl::StrCat("cannot open ", old->temporary_path(),
                         ": No such file or directory; a writer that was granted a greater token removes it"));
  EXPECT_TRUE(VerifyFile(*finished).ok());
  EXPECT_EQ(Files(), (std::set<std::string>{"model-step-00000100.t8.pt", "model-step-00000100.t8.pt.json"}));
}

TEST_F(CheckpointWriterTest, AnOldWriterThatFinishesLateGetsItsOwnName) {
  absl::StatusOr<CheckpointWriter> young = CheckpointWriter::Open(directory_, "model", 100, 8, "pt", kCatalogue);
  ASSERT_TRUE(young.ok()) << young.status();
  WriteFile(young->temporary_path(), "young");
  ASSERT_TRUE(young->Finish("mnist", 2).ok());
  absl::StatusOr<CheckpointWriter> old = CheckpointWriter::Open(directory_, "model", 100, 7, "pt", kCatalogue);
  ASSERT_TRUE(old.ok()) << old.status();
  WriteFile(old->temporary_path(), "old");
  ASSERT_TRUE(old->Finish("mnist", 1).ok());
  EXPECT_EQ(Content(young->final_path()), "young");
  EXPECT_EQ(FindManifest(directory_, "model", -1)->checkpoint.token(), 8u);
}

TEST_F(CheckpointWriterTest, OnlyStaleTemporaryFilesOfTheNameAndTheCatalogueAreRemoved) {
  const std::string suffix = absl::StrCat(".", kCatalogue, ".partial");
  const std::set<std::string> kept = {".model-step-00000009.t6" + suffix + ".pt",
                                      ".model-step-1-step-00000001.t1" + suffix + ".pt",
                                      ".other-step-00000001.t1" + suffix + ".pt",
                                      ".model-step-x.t1" + suffix + ".pt",
                                      "model-step-00000001.t1.pt",
                                      "model-step-00000001.t1.pt.json",
                                      ".model-step-00000001.t99999999999999999999" + suffix + ".pt",
                                      ".model-step-00000001.t1.feedfeedfeedfeed.partial.pt",
                                      ".model-step-00000001.t1.pt.json.feedfeedfeedfeed.partial",
                                      ".model-step-00000001.t1.alone.partial.pt"};
  for (const std::string& name : kept) WriteFile(In(name), "");
  WriteFile(In(".model-step-00000001.t1" + suffix + ".pt"), "");
  WriteFile(In(".model-step-00000400.t4" + suffix + ".safetensors"), "");
  WriteFile(In(".model-step-00000001.t2.pt.json" + suffix), "");
  // One that a program has named after its own, and one where a program has made a directory of it.
  WriteFile(In(".model-step-00000001.t3" + suffix + ".pt.npz"), "");
  std::filesystem::create_directories(In(".model-step-00000002.t3" + suffix + ".pt/inner"));
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 5, 5, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::set<std::string> expected = kept;
  expected.insert(".model-step-00000005.t5" + suffix + ".pt");
  EXPECT_EQ(Files(), expected);
}

// Two jobs, each with a coordinator of its own, that write the same name into one directory.
TEST_F(CheckpointWriterTest, AWriterOfAnotherCatalogueGoesOnUndisturbed) {
  absl::StatusOr<CheckpointWriter> one = CheckpointWriter::Open(directory_, "model", 1, 7, "pt", kCatalogue);
  ASSERT_TRUE(one.ok()) << one.status();
  WriteFile(one->temporary_path(), "one");
  absl::StatusOr<CheckpointWriter> other = CheckpointWriter::Open(directory_, "model", 1, 8, "pt", "feedfeedfeedfeed");
  ASSERT_TRUE(other.ok()) << other.status();
  WriteFile(other->temporary_path(), "other");
  ASSERT_TRUE(one->Finish("mnist", 1).ok());
  ASSERT_TRUE(other->Finish("mnist", 1).ok());
  EXPECT_EQ(Content(one->final_path()), "one");
  EXPECT_EQ(Content(other->final_path()), "other");
}

TEST_F(CheckpointWriterTest, ATokenThatAnotherCataloguesWriterHasIsRefused) {
  const std::string taken = "cannot create " + In("model-step-00000001.t7.pt");
  absl::StatusOr<CheckpointWriter> one = CheckpointWriter::Open(directory_, "model", 1, 7, "pt", kCatalogue);
  ASSERT_TRUE(one.ok()) << one.status();
  WriteFile(one->temporary_path(), "one");
  const auto open = [this] { return CheckpointWriter::Open(directory_, "model", 1, 7, "pt", "feed").status(); };
  EXPECT_EQ(open().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(open().message(),
            taken + ", which becomes of .model-step-00000001.t7." + kCatalogue + ".partial.pt: File exists");
  ASSERT_TRUE(one->Finish("mnist", 1).ok());
  EXPECT_EQ(open().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(open().message(), taken + ": File exists");
  EXPECT_EQ(Files(), (std::set<std::string>{"model-step-00000001.t7.pt", "model-step-00000001.t7.pt.json"}));
  // Another step's or another name's file is another file.
  EXPECT_TRUE(CheckpointWriter::Open(directory_, "model", 2, 7, "pt", "feed").ok());
  EXPECT_TRUE(CheckpointWriter::Open(directory_, "best", 1, 7, "pt", "feed").ok());
}

TEST_F(CheckpointWriterTest, WithoutACatalogueOnlyFilesOfProcessesThatAreGoneAreRemoved) {
  // One that was killed in the midst of it.
  const pid_t killed = fork();
  if (killed == 0) {
    absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", "");
    WriteFile(writer->temporary_path(), "half");
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  EXPECT_EQ(Files(), (std::set<std::string>{".model-step-00000001.t1.alone.partial.pt"}));
  // One that is at it.
  absl::StatusOr<CheckpointWriter> running = CheckpointWriter::Open(directory_, "model", 2, 2, "pt", "");
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(Files(), (std::set<std::string>{".model-step-00000002.t2.alone.partial.pt"}));
  WriteFile(running->temporary_path(), "running");
  absl::StatusOr<CheckpointWriter> third = CheckpointWriter::Open(directory_, "model", 3, 3, "pt", "");
  ASSERT_TRUE(third.ok()) << third.status();
  ASSERT_TRUE(running->Finish("", 0).ok());
  EXPECT_EQ(Content(running->final_path()), "running");
}

TEST_F(CheckpointWriterTest, APipeAmongTheTemporaryFilesIsNotWaitedFor) {
  const std::string pipe = In(".model-step-00000001.t0.alone.partial.pt");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 2, 1, "pt", "");
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE(std::filesystem::exists(pipe)) << "nobody has it locked";
}

TEST_F(CheckpointWriterTest, AFileOfTheFinalNameIsNeverReplaced) {
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  WriteFile(writer->temporary_path(), "weights");
  WriteFile(writer->final_path(), "somebody's");
  const absl::Status status = writer->Finish("mnist", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), absl::StrCat("cannot create ", writer->final_path(), ": File exists"));
  EXPECT_EQ(Content(writer->final_path()), "somebody's");
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(CheckpointWriterTest, AWriterThatWritesNothingOrElsewhereHasNoCheckpoint) {
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "np", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string path = writer->temporary_path();
  // As numpy.savez does with a path that does not end in its own extension.
  WriteFile(path + ".npz", "weights");
  EXPECT_EQ(writer->Finish("mnist", 1).status(),
            absl::FailedPreconditionError(
                absl::StrCat("nothing was written to ", path, ", so there is no checkpoint; there is ", path, ".npz")));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CheckpointWriterTest, AWriterThatMakesADirectoryOrALinkHasNoCheckpointAndIsInNobodysWay) {
  for (uint64_t token = 1; token <= 3; ++token) {
    absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, token, "pt", kCatalogue);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::string path = writer->temporary_path();
    std::filesystem::remove(path);
    if (token == 3) {
      std::filesystem::create_symlink("/etc/passwd", path);
    } else {
      std::filesystem::create_directories(path + "/variables");
    }
    EXPECT_EQ(writer->Finish("mnist", 1).status(),
              absl::FailedPreconditionError(
                  absl::StrCat("a checkpoint is one file, and of ", path, " something else was made")));
    EXPECT_TRUE(Files().empty());
  }
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

TEST_F(CheckpointWriterTest, AFullDiskWhileWritingIsNamed) {
  if (!MountSmallDisk(1024)) GTEST_SKIP() << "no right to mount: " << strerror(errno);
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  WriteFile(writer->temporary_path(), std::string(2 << 20, 'x'));
  const absl::Status status = writer->Fail("PytorchStreamWriter failed writing file data/3");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), absl::StrCat("cannot write ", writer->temporary_path(), ": No space left on device"));
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(CheckpointWriterTest, AFullDiskAtTheManifestLeavesNothing) {
  if (!MountSmallDisk(1024)) GTEST_SKIP() << "no right to mount: " << strerror(errno);
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  WriteFile(writer->temporary_path(), std::string(1 << 20, 'x'));
  ASSERT_EQ(std::filesystem::file_size(writer->temporary_path()), 1u << 20);
  const absl::Status status = writer->Finish("mnist", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), absl::StrCat("cannot write ", writer->final_path(), ".json: No space left on device"));
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(CheckpointWriterTest, AReadOnlyDiskIsNamed) {
  if (!MountSmallDisk(1024)) GTEST_SKIP() << "no right to mount: " << strerror(errno);
  ASSERT_EQ(mount("none", directory_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const absl::Status status = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(absl::EndsWith(status.message(), ": Read-only file system")) << status;
}

TEST_F(CheckpointWriterTest, AnotherFailureKeepsItsCause) {
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const absl::Status status = writer->Fail("pickle: cannot pickle a lock");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::EndsWith(status.message(), ": pickle: cannot pickle a lock")) << status;
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(CheckpointWriterTest, ADirectoryWithoutRightsIsNamed) {
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  const bool is_root = geteuid() == 0;
  // Root may write anywhere; so this thread gives that up for its file accesses.
  if (is_root) setfsuid(65534);
  const absl::Status status = CheckpointWriter::Open(directory_, "model", 1, 1, "pt", kCatalogue).status();
  if (is_root) setfsuid(0);
  chmod(directory_.c_str(), 0755);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), absl::StrCat("cannot create ", In(".model-step-00000001.t1.00c0ffee00c0ffee.partial.pt"),
                                           ": Permission denied"));
}

TEST_F(CheckpointWriterTest, AFileWhereTheDirectoryMustBeIsNamed) {
  WriteFile(In("file"), "");
  const absl::Status status = CheckpointWriter::Open(In("file/below"), "model", 1, 1, "pt", kCatalogue).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), absl::StrCat("cannot make directory ", In("file"), ": Not a directory"));
}

TEST_F(CheckpointWriterTest, NamesThatNoFileCanHaveAreRefused) {
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("a\0b", 3), std::string(250, 'n')}) {
    EXPECT_EQ(CheckpointWriter::Open(directory_, name, 1, 1, "pt", kCatalogue).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CheckpointWriter::Open(directory_, "model", 1, 1, "", kCatalogue).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckpointWriter::Open(directory_, "model", -1, 1, "pt", kCatalogue).status().message(),
            "a checkpoint's step must not be negative, but is -1");
  EXPECT_EQ(Files().size(), 0u);
}

}  // namespace
}  // namespace farandole
