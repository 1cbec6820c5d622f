#include "server/diagnosis/measured_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr absl::Duration kReportDistance = absl::Seconds(60);
// Of some thousands of hosts; a commit takes it beside the other rows. Without them it is small.
constexpr size_t kMostReportBytes = 400 << 10;

}  // namespace

StoreBatch MeasuredRows::Take(absl::Time now, bool is_running, const std::function<v1::GetJobResponse()>& report) {
  StoreBatch batch;
  if (!history_.Save(&batch)) return batch;
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
  if (row.key != report_key_) return history_.Load(row);
  has_report_ = true;
  if (loaded_.ParseFromString(row.value)) return absl::OkStatus();
  loaded_.Clear();
  return absl::DataLossError(absl::StrCat("row ", row.key, " is not a report"));
}

void MeasuredRows::Clear() {
  history_.Clear();
  loaded_.Clear();
  is_cleared_ = true;
}

}  // namespace farandole
