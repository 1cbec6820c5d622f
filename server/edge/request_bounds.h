#ifndef FARANDOLE_SERVER_EDGE_REQUEST_BOUNDS_H_
#define FARANDOLE_SERVER_EDGE_REQUEST_BOUNDS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Bounds of a request about a job, by gRPC as by HTTP.
inline constexpr size_t kMaxReasonBytes = 1024;
inline constexpr size_t kMaxHostnameBytes = 255;

// INVALID_ARGUMENT, with the field's name and both sizes: the value is longer than `most`.
inline absl::Status CheckBytes(absl::string_view field, absl::string_view value, size_t most) {
  if (value.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value.size(), " bytes are more than ", most));
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_REQUEST_BOUNDS_H_
