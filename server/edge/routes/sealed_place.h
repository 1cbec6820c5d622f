#ifndef FARANDOLE_SERVER_EDGE_ROUTES_SEALED_PLACE_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_SEALED_PLACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Seals places in a file that the reader sees a part of only, which would tell him how much others have written. Each
// seal has a key of its own, so that a place is good until the process ends. Thread-safe.
class PlaceSeal {
 public:
  PlaceSeal();

  // Text for an address that tells nothing of the place, which has at most 48 bytes; "" for "".
  std::string Seal(absl::string_view place) const;
  // INVALID_ARGUMENT: Seal has not made it.
  absl::StatusOr<std::string> Open(absl::string_view sealed) const;

 private:
  std::string Mark(absl::string_view salt, absl::string_view hidden) const;

  const std::string key_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_SEALED_PLACE_H_
