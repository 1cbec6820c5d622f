#include "checkpoint/manifest.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "/manifest.XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    directory_ = made;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // A checkpoint's file and its manifest.
  Manifest Make(const std::string& name, int64_t step, uint64_t token, const std::string& content) {
    Manifest manifest;
    manifest.job = "mnist";
    v1::Checkpoint& checkpoint = manifest.checkpoint;
    checkpoint.set_name(name);
    checkpoint.set_step(step);
    checkpoint.set_token(token);
    checkpoint.set_epoch(2);
    checkpoint.set_path(absl::StrCat(directory_, "/", name, "-", step, ".t", token, ".pt"));
    WriteFile(checkpoint.path(), content);
    const absl::StatusOr<FileDigest> digest = DigestFile(checkpoint.path());
    EXPECT_TRUE(digest.ok()) << digest.status();
    checkpoint.set_size_bytes(digest->size_bytes);
    checkpoint.set_sha256(digest->sha256);
    EXPECT_TRUE(WriteManifest(manifest, manifest.checkpoint.path() + ".partial").ok());
    return manifest;
  }

  std::string directory_;
};

TEST_F(ManifestTest, WhatWasWrittenIsRead) {
  const Manifest written = Make("model", 5, 3, "weights");
  const absl::StatusOr<Manifest> read = ReadManifest(ManifestPath(written.checkpoint.path()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, "mnist");
  EXPECT_EQ(read->checkpoint.SerializeAsString(), written.checkpoint.SerializeAsString());
}

TEST_F(ManifestTest, ACopiedPairIsVerifiedWhereItLies) {
  const Manifest written = Make("model", 5, 3, "weights");
  const std::string copy = directory_ + "/copy.pt";
  std::filesystem::rename(written.checkpoint.path(), copy);
  std::filesystem::rename(ManifestPath(written.checkpoint.path()), ManifestPath(copy));
  const absl::StatusOr<Manifest> read = ReadManifest(ManifestPath(copy));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->checkpoint.path(), copy);
  EXPECT_TRUE(VerifyFile(read->checkpoint).ok());
}

TEST_F(ManifestTest, ANameThatIsNoUtf8IsReplacedAndNotThrownFor) {
  Manifest manifest = Make("model", 5, 3, "weights");
  manifest.checkpoint.set_name("\xff\xfe");
  EXPECT_TRUE(WriteManifest(manifest, manifest.checkpoint.path() + ".partial").ok());
  EXPECT_TRUE(ReadManifest(ManifestPath(manifest.checkpoint.path())).ok());
}

TEST_F(ManifestTest, AnIntactFileIsVerified) {
  // Longer than the pieces in which it is read.
  EXPECT_TRUE(VerifyFile(Make("model", 5, 3, std::string((3 << 20) + 17, 'w')).checkpoint).ok());
  EXPECT_TRUE(VerifyFile(Make("empty", 5, 3, "").checkpoint).ok());
}

TEST_F(ManifestTest, ATruncatedFileIsNamedWithBothSizes) {
  const v1::Checkpoint checkpoint = Make("model", 5, 3, "weights").checkpoint;
  std::filesystem::resize_file(checkpoint.path(), 4);
  const absl::Status status = VerifyFile(checkpoint);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), absl::StrCat("checkpoint ", checkpoint.path(), " has 4 bytes, 7 were committed"));
}

TEST_F(ManifestTest, AFlippedBitIsNamedWithBothChecksums) {
  const v1::Checkpoint checkpoint = Make("model", 5, 3, "weights").checkpoint;
  WriteFile(checkpoint.path(), "weightr");
  const absl::Status status = VerifyFile(checkpoint);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), absl::BytesToHexString(checkpoint.sha256()))) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), absl::BytesToHexString(DigestFile(checkpoint.path())->sha256)))
      << status;
}

TEST_F(ManifestTest, AMissingFileIsNamed) {
  const v1::Checkpoint checkpoint = Make("model", 5, 3, "weights").checkpoint;
  std::filesystem::remove(checkpoint.path());
  const absl::Status status = VerifyFile(checkpoint);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), absl::StrCat("cannot read ", checkpoint.path(), ": No such file or directory"));
}

TEST_F(ManifestTest, ADirectoryInThePlaceOfTheFileIsAnError) {
  const v1::Checkpoint checkpoint = Make("model", 5, 3, "weights").checkpoint;
  std::filesystem::remove(checkpoint.path());
  std::filesystem::create_directory(checkpoint.path());
  EXPECT_EQ(VerifyFile(checkpoint).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ManifestTest, APipeInThePlaceOfTheFileIsAnErrorAndIsNotWaitedFor) {
  const v1::Checkpoint checkpoint = Make("model", 5, 3, "weights").checkpoint;
  std::filesystem::remove(checkpoint.path());
  ASSERT_EQ(mkfifo(checkpoint.path().c_str(), 0600), 0);
  EXPECT_EQ(VerifyFile(checkpoint).message(), absl::StrCat("checkpoint ", checkpoint.path(), " is not a file"));
  EXPECT_EQ(DigestFile(checkpoint.path()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ManifestTest, WhatIsNoManifestIsSaid) {
  const std::string path = directory_ + "/x.pt.json";
  const std::string digest(64, 'a');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "it is no JSON object"},
      {"[1]", "it is no JSON object"},
      {"{\"farandole_manifest\": 1", "it is no JSON object"},
      {"{\"farandole_manifest\": 2}", "it has no field 'sha256'"},
      {absl::StrCat(
           "{\"farandole_manifest\":2,\"job\":\"j\",\"epoch\":1,\"name\":\"n\",\"step\":1,\"token\":1,\"size_bytes\":1,"
           "\"sha256\":\"",
           digest, "\"}"),
       "its format is 2, this program knows 1"},
      {absl::StrCat("{\"farandole_manifest\":1,\"job\":\"j\",\"epoch\":1,\"name\":\"n\",\"step\":1,\"token\":-1,\"size_"
                    "bytes\":1,"
                    "\"sha256\":\"",
                    digest, "\"}"),
       "its field 'token' is of the wrong kind"},
      {"{\"farandole_manifest\":1,\"job\":\"j\",\"epoch\":1,\"name\":\"n\",\"step\":1,\"token\":1,\"size_bytes\":1,"
       "\"sha256\":\"xyz\"}",
       "its sha256 is not 64 lower-case hexadecimal digits"},
  };
  for (const auto& [content, why] : cases) {
    WriteFile(path, content);
    const absl::Status status = ReadManifest(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << content;
    EXPECT_EQ(status.message(), absl::StrCat(path, " is not a checkpoint's manifest: ", why)) << content;
  }
  EXPECT_EQ(ReadManifest(directory_ + "/none.json").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ManifestTest, APipeInTheDirectoryIsNotWaitedFor) {
  Make("model", 1, 1, "a");
  const std::string pipe = directory_ + "/pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadManifest(pipe).status(),
            absl::DataLossError(absl::StrCat(pipe, " is not a checkpoint's manifest: it is no file")));
  EXPECT_EQ(ListManifests(directory_)->size(), 1u);
}

TEST_F(ManifestTest, TheNewestTokenIsFound) {
  Make("model", 10, 2, "b");
  Make("model", 5, 3, "c");
  Make("other", 99, 4, "d");
  Make("model", 1, 1, "a");
  std::filesystem::remove(Make("model", 2, 9, "gone").checkpoint.path());
  WriteFile(directory_ + "/package.json", "{}");
  EXPECT_EQ(ListManifests(directory_)->size(), 4u);
  EXPECT_EQ(FindManifest(directory_, "", -1)->checkpoint.token(), 4u);
  EXPECT_EQ(FindManifest(directory_, "model", -1)->checkpoint.token(), 3u);
  EXPECT_EQ(FindManifest(directory_, "model", 10)->checkpoint.token(), 2u);
  const absl::Status none = FindManifest(directory_, "model", 11).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.message(), absl::StrCat("there is no checkpoint 'model' of step 11 in ", directory_));
  EXPECT_EQ(ListManifests(directory_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ManifestTest, AClaimedNameIsNotReplacedAndAFailedRenameGivesItBack) {
  const std::string from = directory_ + "/from";
  const std::string to = directory_ + "/to";
  EXPECT_EQ(ClaimAndRename(from, to).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(to));
  WriteFile(from, "new");
  EXPECT_TRUE(ClaimAndRename(from, to).ok());
  EXPECT_FALSE(std::filesystem::exists(from));
  EXPECT_EQ(*ReadSmallFile(to, 100), "new");
  WriteFile(from, "newer");
  EXPECT_EQ(ClaimAndRename(from, to).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadSmallFile(to, 100), "new");
  EXPECT_EQ(ReadSmallFile(to, 2).status().message(), absl::StrCat(to, " has 3 bytes; at most 2 are read"));
}

TEST_F(ManifestTest, WhateverHasTheTemporaryNameIsReplacedAndNotWaitedForNorFollowed) {
  const std::string path = directory_ + "/file", temporary = directory_ + "/temporary", theirs = directory_ + "/theirs";
  ASSERT_EQ(mkfifo(temporary.c_str(), 0600), 0);
  EXPECT_TRUE(WriteFileAtomically(path, temporary, "first").ok());
  EXPECT_EQ(*ReadSmallFile(path, 100), "first");
  WriteFile(theirs, "kept");
  for (const auto& put : {symlink, link}) {
    ASSERT_EQ(put(theirs.c_str(), temporary.c_str()), 0);
    EXPECT_TRUE(WriteFileAtomically(path, temporary, "second").ok());
    EXPECT_EQ(*ReadSmallRegularFile(path, 100), "second");
    EXPECT_EQ(*ReadSmallFile(theirs, 100), "kept");
  }
  EXPECT_FALSE(std::filesystem::exists(temporary));
}

}  // namespace
}  // namespace farandole
