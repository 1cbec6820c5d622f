#include "server/diagnosis/measured_rows.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

constexpr absl::Duration kReportDistance = absl::Seconds(60);
// Of some thousands of hosts; a commit takes it beside the other rows. Without them it is small.
constexpr size_t kMostReportBytes = 400 << 10;

}  // namespace

bool MeasuredRows::SaveHistory(StoreBatch* batch) {
  if (!history_.ranks.Save(batch)) return false;
  // A commit has room for the rows of one of them. Those of hosts that are not due yet may have some to delete.
  if (!batch->puts.empty() || !batch->deletes.empty()) return !history_.hosts.IsDue();
  return history_.hosts.Save(batch);
}

StoreBatch MeasuredRows::Take(absl::Time now, bool is_running, const std::function<v1::GetJobResponse()>& report) {
  StoreBatch batch;
  if (!SaveHistory(&batch)) return batch;
  if (std::exchange(is_cleared_, false)) {
    if (std::exchange(has_report_, false)) batch.deletes.push_back(report_key_);
    return batch;
  }
  if (is_running && now < reported_ + kReportDistance) return batch;
  v1::GetJobResponse made = report();
  // Nothing was measured.
  if (made.diagnosis().at_unix_ms() == 0) return batch;
  if (made.ByteSizeLong() > kMostReportBytes) made.clear_hosts();
  batch.puts.push_back({report_key_, made.SerializeAsString()});
  has_report_ = true;
  reported_ = now;
  return batch;
}

absl::Status MeasuredRows::Load(const StoreRow& row) {
  if (absl::StartsWith(row.key, absl::StrCat(rows_, MeasuredHistory::kHosts))) return history_.hosts.Load(row);
  if (row.key != report_key_) return history_.ranks.Load(row);
  has_report_ = true;
  if (loaded_.ParseFromString(row.value)) return absl::OkStatus();
  loaded_.Clear();
  return absl::DataLossError(absl::StrCat("row ", row.key, " is not a report"));
}

bool MeasuredRows::IsWhole(const StoreRow& row) {
  const std::vector<absl::string_view> parts = absl::StrSplit(row.key, absl::MaxSplits('/', 3));
  if (parts.size() < 4) return false;
  MeasuredRows rows(absl::StrCat(parts[0], "/", parts[1], "/", parts[2], "/"), nullptr);
  return rows.Load(row).ok();
}

void MeasuredRows::Clear() {
  history_.ranks.Clear();
  history_.hosts.Clear();
  loaded_.Clear();
  is_cleared_ = true;
}

}  // namespace farandole
