#include "server/registry/row_kinds.h"

#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// By kind, whether its keys have a tenant, as the list at the head of store.proto says.
std::map<std::string, bool> ListedKinds() {
  std::map<std::string, bool> kinds;
  std::ifstream file("proto/farandole/v1/store.proto");
  for (std::string line; std::getline(file, line) && !absl::StartsWith(line, "syntax");) {
    const std::string key = absl::StartsWith(line, "//   ") ? line.substr(5, line.find(' ', 5) - 5) : "";
    if (const size_t slash = key.find('/'); slash != std::string::npos)
      kinds[key.substr(0, slash)] = absl::StartsWith(key.substr(slash), "/TENANT/");
  }
  return kinds;
}

TEST(RowKindsTest, AreThoseOfTheListInStoreProto) {
  const std::map<std::string, bool> listed = ListedKinds();
  EXPECT_GT(listed.size(), 10u);
  for (const auto& [name, is_of_tenant] : listed) {
    const RowKind* kind = FindRowKind(name);
    ASSERT_NE(kind, nullptr) << name;
    EXPECT_EQ(kind->is_of_tenant, is_of_tenant) << name;
  }
  for (const RowKind& kind : RowKinds()) EXPECT_TRUE(listed.count(std::string(kind.name)) > 0 || kind.name == "owner");
}

TEST(RowKindsTest, AKeyBeginsWithItsKind) {
  EXPECT_EQ(KindOfRow("job/team/train"), "job");
  EXPECT_EQ(KindOfRow("job"), "job");
  EXPECT_EQ(FindRowKind("jobs"), nullptr);
}

}  // namespace
}  // namespace farandole
