#include "server/backup/row_check.h"

#include <cstdint>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/logged.pb.h"
#include "server/diagnosis/measured_rows.h"
#include "server/registry/row_kinds.h"

namespace farandole {
namespace {

bool IsWhole(const RowKind& kind, const StoreRow& row) {
  uint64_t revision = 0;
  if (kind.name == "owner") return absl::SimpleAtoi(row.value, &revision);
  if (kind.name == "purge") return row.value.empty();
  if (kind.name == "logged" && absl::EndsWith(row.key, "/stands")) return v1::LoggedStands().ParseFromString(row.value);
  if (kind.name == "measured") return MeasuredRows::IsWhole(row);
  const std::unique_ptr<google::protobuf::Message> message(kind.message->New());
  return message->ParseFromString(row.value);
}

}  // namespace

absl::Status CheckRow(const StoreRow& row) {
  const RowKind* kind = FindRowKind(KindOfRow(row.key));
  const std::string key = absl::Utf8SafeCHexEscape(row.key);
  if (kind == nullptr) return absl::DataLossError(absl::StrCat("row ", key, " is of no known kind"));
  if (IsWhole(*kind, row)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("row ", key, " does not hold what its kind wants, in ", row.value.size(),
                                          row.value.size() == 1 ? " byte" : " bytes"));
}

}  // namespace farandole
