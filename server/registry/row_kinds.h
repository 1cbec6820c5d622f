#ifndef FARANDOLE_SERVER_REGISTRY_ROW_KINDS_H_
#define FARANDOLE_SERVER_REGISTRY_ROW_KINDS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"

namespace farandole {

// Rows of the store whose keys begin alike: "job" of "job/team/train". store.proto lists them.
struct RowKind {
  absl::string_view name;
  // Each row holds such a message. Null: text of the store's own, or nothing.
  const google::protobuf::Message* message = nullptr;
  // The key has the tenant's name behind the kind.
  bool is_of_tenant = false;
};

// All kinds that there are.
absl::Span<const RowKind> RowKinds();

// The first part of a row's key.
absl::string_view KindOfRow(absl::string_view key);

// Null: there is no such kind.
const RowKind* FindRowKind(absl::string_view name);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_ROW_KINDS_H_
