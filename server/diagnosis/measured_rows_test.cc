#include "server/diagnosis/measured_rows.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr char kRows[] = "measured/acme/train/";

// Rows of early epochs: each process was rank 0 in the one before.
void LoadLinks(MeasuredRows* rows, const std::string& folder, uint64_t last) {
  const std::string value(sizeof(int32_t), '\0');
  for (uint64_t epoch = 2; epoch <= last; ++epoch)
    ASSERT_TRUE(rows->Load({absl::StrFormat("%s%slinks/%012d", kRows, folder, epoch), value}).ok());
}

TEST(MeasuredRowsTest, RanksAndHostsThatBothHaveRowsToDeleteFillNoCommitTogether) {
  MeasuredRows rows(kRows, nullptr);
  LoadLinks(&rows, "", 41);
  LoadLinks(&rows, MeasuredHistory::kHosts, 121);
  NetworkHistory& hosts = rows.history().hosts;
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  hosts.Begin(122, {0}, now, absl::ZeroDuration());
  hosts.Add(hosts.NumberAt(now), std::vector<NetworkRollUp>{{100, 0, 0, 1, 1}});
  hosts.Hasten();
  const auto no_report = [] { return v1::GetJobResponse(); };
  while (rows.IsDue()) rows.Take(now, true, no_report);
  // The hosts' early epochs go with their last point, and are not due by themselves.
  now += absl::Hours(24 * 40);
  hosts.Add(hosts.NumberAt(now), std::vector<NetworkRollUp>{{100, 0, 0, 1, 1}});
  rows.history().ranks.Clear();
  size_t deleted = 0;
  const auto save = [&] {
    while (rows.IsDue()) {
      const StoreBatch batch = rows.Take(now, true, no_report);
      EXPECT_LE(batch.deletes.size() + batch.puts.size(), kMaxBatchOperations);
      deleted += batch.deletes.size();
    }
  };
  save();
  EXPECT_EQ(deleted, 40u) << "of the ranks";
  hosts.Hasten();
  save();
  EXPECT_GE(deleted, 160u) << "in the end all have gone";
}

}  // namespace
}  // namespace farandole
