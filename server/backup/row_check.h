#ifndef FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_
#define FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_

#include "absl/status/status.h"
#include "server/store/store.h"

namespace farandole {

// OK, or DATA_LOSS: the row has a kind that store.proto does not have, or does not hold what it says (named).
absl::Status CheckRow(const StoreRow& row);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BACKUP_ROW_CHECK_H_
