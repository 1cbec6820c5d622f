#include "deploy/launcher/environment/drop_in.h"

#include <stdlib.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::HasSubstr;

class DropInTest : public testing::Test {
 protected:
  DropInTest() {
    std::string pattern = absl::StrCat(testing::TempDir(), "/prefix.XXXXXX");
    prefix_ = mkdtemp(pattern.data());
  }

  void Make(const std::string& folder, const std::string& file, const std::string& text = "") {
    ASSERT_EQ(system(absl::StrCat("mkdir -p ", prefix_, "/", folder).c_str()), 0);
    std::ofstream(absl::StrCat(prefix_, "/", folder, "/", file)) << text;
  }

  std::string prefix_;
};

TEST_F(DropInTest, ItIsInThePackageOfThePythonBesideTheProgram) {
  Make("lib/python3.9/site-packages/farandole/_dropin/horovod", "__init__.py");
  const absl::StatusOr<std::string> found = FindDropIn(absl::StrCat(prefix_, "/bin/farandole"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, absl::StrCat(prefix_, "/lib/python3.9/site-packages/farandole/_dropin"));
}

TEST_F(DropInTest, ItIsInThePackageThatHoldsTheProgram) {
  Make("farandole/_dropin/horovod", "__init__.py");
  EXPECT_EQ(*FindDropIn(absl::StrCat(prefix_, "/farandole/_bin/farandole")),
            absl::StrCat(prefix_, "/farandole/_dropin"));
}

TEST_F(DropInTest, APathFileIsFollowedToACheckout) {
  Make("checkout/farandole/_dropin/horovod", "__init__.py");
  Make("lib/python3.11/site-packages", "farandole.pth", absl::StrCat(prefix_, "/checkout\n"));
  EXPECT_EQ(*FindDropIn(absl::StrCat(prefix_, "/bin/farandole")), absl::StrCat(prefix_, "/checkout/farandole/_dropin"));
}

TEST_F(DropInTest, WhereThereIsNoneThePlaceIsNamed) {
  const std::string text(FindDropIn(absl::StrCat(prefix_, "/bin/farandole")).status().message());
  EXPECT_THAT(text, HasSubstr(absl::StrCat("not installed beside ", prefix_, "/bin/farandole")));
}

}  // namespace
}  // namespace farandole::launcher
