#include "server/registry/row_kinds.h"

#include <algorithm>

#include "farandole/v1/logged.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

absl::Span<const RowKind> RowKinds() {
  static const RowKind kinds[] = {
      {"tenant", &v1::TenantRecord::default_instance(), false},
      {"token", &v1::TokenRecord::default_instance(), true},
      {"use", &v1::TokenUseRecord::default_instance(), true},
      {"meta", &v1::SchemaRecord::default_instance(), false},
      {"job", &v1::JobRecord::default_instance(), true},
      {"summary", &v1::JobSummary::default_instance(), true},
      {"members", &v1::MembersRecord::default_instance(), true},
      {"checkpoint", &v1::Checkpoint::default_instance(), true},
      {"grant", &v1::GrantRecord::default_instance(), true},
      // But for logged/TENANT/JOB/stands, a LoggedStands.
      {"logged", &v1::LoggedRecord::default_instance(), true},
      // Points as they lie in memory (server/diagnosis/roll_up_history.cc); measured/TENANT/JOB/report has a
      // GetJobResponse.
      {"measured", nullptr, true},
      {"gone", &v1::GoneRecord::default_instance(), true},
      {"purge", nullptr, true},
      {"queue", &v1::QueuedRecord::default_instance(), true},
      {"key", &v1::AnswerRecord::default_instance(), true},
      // The store's own: the revision of an owner, as a number.
      {"owner", nullptr, false},
  };
  return kinds;
}

absl::string_view KindOfRow(absl::string_view key) { return key.substr(0, key.find('/')); }

const RowKind* FindRowKind(absl::string_view name) {
  const absl::Span<const RowKind> kinds = RowKinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const RowKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace farandole
