#include "server/backup/row_check.h"

#include <cstdint>
#include <map>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/logged.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"

namespace farandole {
namespace {

// The message of the rows of a kind, as store.proto lists them.
const google::protobuf::Message* MessageOf(absl::string_view kind) {
  static const auto& kinds = *new std::map<absl::string_view, const google::protobuf::Message*>{
      {"tenant", &v1::TenantRecord::default_instance()},   {"token", &v1::TokenRecord::default_instance()},
      {"use", &v1::TokenUseRecord::default_instance()},    {"meta", &v1::SchemaRecord::default_instance()},
      {"job", &v1::JobRecord::default_instance()},         {"summary", &v1::JobSummary::default_instance()},
      {"members", &v1::MembersRecord::default_instance()}, {"checkpoint", &v1::Checkpoint::default_instance()},
      {"grant", &v1::GrantRecord::default_instance()},     {"logged", &v1::LoggedRecord::default_instance()},
      {"gone", &v1::GoneRecord::default_instance()},       {"key", &v1::AnswerRecord::default_instance()}};
  const auto found = kinds.find(kind);
  return found == kinds.end() ? nullptr : found->second;
}

bool IsWhole(absl::string_view kind, const StoreRow& row) {
  uint64_t revision = 0;
  if (kind == "owner") return absl::SimpleAtoi(row.value, &revision);
  if (kind == "purge") return row.value.empty();
  if (kind == "logged" && absl::EndsWith(row.key, "/stands")) return v1::LoggedStands().ParseFromString(row.value);
  const std::unique_ptr<google::protobuf::Message> message(MessageOf(kind)->New());
  return message->ParseFromString(row.value);
}

}  // namespace

absl::string_view KindOfRow(absl::string_view key) { return key.substr(0, key.find('/')); }

absl::Status CheckRow(const StoreRow& row) {
  const absl::string_view kind = KindOfRow(row.key);
  const std::string key = absl::Utf8SafeCHexEscape(row.key);
  if (kind != "owner" && kind != "purge" && MessageOf(kind) == nullptr)
    return absl::DataLossError(absl::StrCat("row ", key, " is of no known kind"));
  if (IsWhole(kind, row)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("row ", key, " does not hold what its kind wants, in ", row.value.size(),
                                          row.value.size() == 1 ? " byte" : " bytes"));
}

}  // namespace farandole
