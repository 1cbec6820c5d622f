#include "worker/engine/timeline/timeline_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

// The row of all that has none of its own.
constexpr int kOthersRow = 0;

std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

TimelineText::TimelineText(int rank, std::string who, int64_t ahead_ns, std::string* out)
    : rank_(rank), who_(std::move(who)), ahead_ns_(ahead_ns), out_(out) {}

void TimelineText::BeginPart() {
  ++part_;
  is_first_ = true;
  AddLine(absl::StrCat(R"({"ph":"M","name":"process_name","pid":)", rank_, R"(,"args":{"name":)", Quote(who_),
                       R"(,"start_time_since_epoch_in_micros":)", absl::GetCurrentTimeNanos() / 1000, "}}"));
  AddLine(
      absl::StrCat(R"({"ph":"M","name":"process_sort_index","pid":)", rank_, R"(,"args":{"sort_index":)", rank_, "}}"));
}

void TimelineText::Add(const TimelineEvent& event) {
  if (event.name.empty()) {
    return AddLine(absl::StrCat(R"({"ph":"i","s":"p","name":"CYCLE_START","pid":)", rank_, R"(,"ts":)",
                                (event.ended_ns + ahead_ns_) / 1000, "}"));
  }
  if (event.is_on_gpu) {
    return AddSpan("ON_GPU", RowNamed("GPU"), event.started_ns, event.ended_ns,
                   absl::StrCat(R"({"tensors":)", Quote(event.name), "}"));
  }
  const std::string op = absl::AsciiStrToUpper(TraitsOf(event.op).name);
  const int row = RowNamed(absl::StrCat(TraitsOf(event.op).name, ".", event.name));
  const int64_t started_ns = event.started_ns == 0 ? event.ended_ns : event.started_ns;
  AddSpan(absl::StrCat("NEGOTIATE_", op), row, event.submitted_ns, started_ns, "{}");
  const std::string error = event.error.empty() ? "" : absl::StrCat(R"(,"error":)", Quote(event.error));
  AddSpan(op, row, started_ns, event.ended_ns,
          absl::StrCat(R"({"dtype":")", Name(event.dtype), R"(","elements":)", event.count, R"(,"bytes":)",
                       event.count * static_cast<int64_t>(SizeOf(event.dtype)), R"(,"process_set":)", event.group,
                       error, "}"));
}

void TimelineText::AddDropped(uint64_t events, int64_t at_ns) {
  AddSpan("DROPPED", kOthersRow, at_ns, at_ns, absl::StrCat(R"({"events":)", events, "}"));
}

int TimelineText::RowNamed(const std::string& name) {
  auto found = rows_.find(name);
  if (found == rows_.end()) {
    if (rows_.size() >= kMostRows) return kOthersRow;
    found = rows_.emplace(name, Row{static_cast<int>(rows_.size()) + 1, 0}).first;
  }
  Row& row = found->second;
  if (row.part != part_) {
    AddLine(absl::StrCat(R"({"ph":"M","name":"thread_name","pid":)", rank_, R"(,"tid":)", row.number,
                         R"(,"args":{"name":)", Quote(name), "}}"));
    row.part = part_;
  }
  return row.number;
}

void TimelineText::AddSpan(const std::string& name, int row, int64_t from_ns, int64_t to_ns,
                           const std::string& arguments) {
  const int64_t from = from_ns + ahead_ns_;
  const int64_t length = std::max<int64_t>(to_ns - from_ns, 0);
  // Microseconds, with their thousandths.
  AddLine(absl::StrCat(R"({"ph":"X","name":")", name, R"(","pid":)", rank_, R"(,"tid":)", row, R"(,"ts":)", from / 1000,
                       ".", absl::Dec(from % 1000, absl::kZeroPad3), R"(,"dur":)", length / 1000, ".",
                       absl::Dec(length % 1000, absl::kZeroPad3), R"(,"args":)", arguments, "}"));
}

void TimelineText::AddLine(const std::string& text) {
  if (!is_first_) out_->append(",\n");
  is_first_ = false;
  out_->append(text);
}

}  // namespace farandole
