#include "base/job_state.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(JobStateNameTest, NamesAreThoseOfTheProtocolInLowerCase) {
  const google::protobuf::EnumDescriptor* states = v1::JobState_descriptor();
  for (int i = 0; i < states->value_count(); ++i) {
    const auto state = static_cast<v1::JobState>(states->value(i)->number());
    if (state == v1::JOB_STATE_UNSPECIFIED) continue;
    EXPECT_EQ(absl::StrCat("job_state_", StateName(state)), absl::AsciiStrToLower(states->value(i)->name()));
  }
}

TEST(JobStateNameTest, ANumberWithoutANameIsUnknown) {
  EXPECT_STREQ(StateName(v1::JOB_STATE_UNSPECIFIED), "unknown");
  EXPECT_STREQ(StateName(static_cast<v1::JobState>(99)), "unknown");
}

}  // namespace
}  // namespace farandole
