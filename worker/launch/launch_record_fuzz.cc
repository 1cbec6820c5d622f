// The text by which rank 0 tells of its coordinator.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "worker/launch/launch_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<farandole::LaunchRecord> record =
      farandole::DecodeLaunchRecord(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!record.ok()) return 0;
  FD_CHECK(!record->addresses.empty());
  const absl::StatusOr<farandole::LaunchRecord> again =
      farandole::DecodeLaunchRecord(farandole::EncodeLaunchRecord(*record));
  FD_CHECK(again.ok()) << again.status();
  FD_CHECK(again->addresses == record->addresses && again->token == record->token && again->job == record->job &&
           again->ca_pem == record->ca_pem);
  return 0;
}
