#ifndef FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_
#define FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/store/store.h"

namespace farandole {

// The first part of a row's key, "job" of "job/team/train".
absl::string_view KindOfRow(absl::string_view key);

// OK, or DATA_LOSS: the row has a kind that store.proto does not have, or does not hold what it says (named).
absl::Status CheckRow(const StoreRow& row);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_
