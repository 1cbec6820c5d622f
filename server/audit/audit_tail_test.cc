#include "server/audit/audit_tail.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/audit/audit_chain.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

constexpr char kName[] = "x";

class AuditTailTest : public ::testing::Test {
 protected:
  AuditTailTest() {
    std::string made = ::testing::TempDir() + "/audit-XXXXXX";
    EXPECT_NE(mkdtemp(made.data()), nullptr);
    directory_ = made + "/audit";
  }

  // Lines m1, m2, ..., in files of some three lines each.
  void Write(int count) const {
    AuditChain::Bounds bounds;
    bounds.file_bytes = 400;
    AuditChain chain = AuditChain::Open(directory_, kName, bounds).value();
    for (int i = 1; i <= count; ++i) ASSERT_TRUE(chain.Add({{"method", absl::StrCat("m", i)}, {"odd", i % 2}}).ok());
  }
  AuditPart Read(const std::string& place, const AuditTailOptions& options) const {
    absl::StatusOr<AuditPart> part = ReadAuditTail(directory_, kName, place, options);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? *std::move(part) : AuditPart();
  }
  static std::vector<std::string> MethodsOf(const AuditPart& part) {
    std::vector<std::string> methods;
    for (const Json& line : part.lines) methods.push_back(line.value("method", ""));
    return methods;
  }
  // All that the parts have, one after the other.
  std::vector<std::string> Walk(const AuditTailOptions& options) const {
    std::vector<std::string> all;
    std::string place;
    for (int parts = 0; parts < 1000; ++parts) {
      const AuditPart part = Read(place, options);
      EXPECT_LE(part.lines.size(), options.most_lines);
      for (const std::string& method : MethodsOf(part)) all.push_back(method);
      if (part.next.empty()) return all;
      EXPECT_NE(part.next, place);
      place = part.next;
    }
    ADD_FAILURE() << "it does not end";
    return all;
  }

  std::string directory_;
};

std::vector<std::string> Down(int from, int step = 1) {
  std::vector<std::string> all;
  for (int i = from; i >= 1; i -= step) all.push_back(absl::StrCat("m", i));
  return all;
}

TEST_F(AuditTailTest, TheNewestLinesComeFirstOverAllFiles) {
  Write(20);
  AuditTailOptions options;
  options.most_lines = 5;
  EXPECT_THAT(MethodsOf(Read("", options)), ElementsAre("m20", "m19", "m18", "m17", "m16"));
  for (size_t most = 1; most <= 21; ++most) {
    options.most_lines = most;
    EXPECT_EQ(Walk(options), Down(20)) << most;
  }
}

TEST_F(AuditTailTest, PiecesOfAnyLengthGiveTheSameLines) {
  Write(20);
  AuditTailOptions options;
  const auto whole = Read("", options);
  EXPECT_EQ(whole.next, "");
  // No line is longer.
  for (size_t most = 300; most < whole.read_bytes + 100; most += 7) {
    options.most_bytes = most;
    EXPECT_EQ(Walk(options), Down(20)) << most;
    EXPECT_LE(Read("", options).read_bytes, most);
  }
}

TEST_F(AuditTailTest, WantedLinesAreFoundHoweverManyOthersThereAre) {
  Write(41);
  AuditTailOptions options;
  options.most_lines = 3;
  options.most_bytes = 500;
  options.wants = [](const Json& line) { return line.value("odd", 0) == 1; };
  EXPECT_EQ(Walk(options), Down(41, 2));
  options.wants = [](const Json& line) { return line.value("method", "") == "m1"; };
  const AuditPart first = Read("", options);
  EXPECT_THAT(first.lines, IsEmpty());
  EXPECT_NE(first.next, "") << "there is more to look at";
  EXPECT_THAT(Walk(options), ElementsAre("m1"));
}

TEST_F(AuditTailTest, ThePlaceStaysWhileLinesAreWritten) {
  Write(10);
  AuditTailOptions options;
  options.most_lines = 4;
  const AuditPart first = Read("", options);
  AuditChain chain = AuditChain::Open(directory_, kName, AuditChain::Bounds()).value();
  ASSERT_TRUE(chain.Add({{"method", "later"}}).ok());
  EXPECT_THAT(MethodsOf(Read(first.next, options)), ElementsAre("m6", "m5", "m4", "m3"));
  // A file that has gone with its lines, and one that never was.
  std::filesystem::remove(ChainFile(directory_, kName, 1));
  options.most_lines = 100;
  EXPECT_THAT(MethodsOf(Read(first.next, options)).back(), HasSubstr("m"));
  EXPECT_THAT(Read("1:100", options).lines, IsEmpty());
  EXPECT_EQ(MethodsOf(Read("999999:7", options)).front(), "later");
}

TEST_F(AuditTailTest, WhatIsNoLineIsLeftOut) {
  Write(2);
  std::ofstream(ChainFile(directory_, kName, 1), std::ios::app) << "nonsense\n[1]\n\n{\"method\":\"torn";
  AuditTailOptions options;
  EXPECT_EQ(Walk(options), Down(2));
  options.most_lines = 1;
  EXPECT_EQ(Walk(options), Down(2));
  // The middle of a line.
  EXPECT_THAT(Read("1:30", options).lines, IsEmpty());
  EXPECT_EQ(Read("1:30", options).next, "");
}

TEST_F(AuditTailTest, APlaceThatIsNoneIsNamed) {
  Write(1);
  for (const char* place : {"x", "1", "1:", ":1", "1:x", "-1:1", "1:2:3"}) {
    const absl::Status refused = ReadAuditTail(directory_, kName, place, {}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << place;
    EXPECT_THAT(refused.message(), HasSubstr("is no place in the audit log")) << place;
  }
  EXPECT_EQ(ReadAuditTail(directory_ + "/none", kName, "", {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace farandole
