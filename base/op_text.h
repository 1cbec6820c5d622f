#ifndef FARANDOLE_BASE_OP_TEXT_H_
#define FARANDOLE_BASE_OP_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "base/op_type.h"

namespace farandole {

// "allreduce"; "op 17" for a number, as another version may send it, that has no name.
inline std::string ShowOp(int op) {
  if (op >= 0 && op < kOpTypeCount) return std::string(TraitsOf(static_cast<OpType>(op)).name);
  return absl::StrCat("op ", op);
}

}  // namespace farandole

#endif  // FARANDOLE_BASE_OP_TEXT_H_
