// The message by which one rank has the others connect by NCCL.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "worker/device/nccl/nccl_invitation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kRanks = 4;
  // The input is its beginning: most of a message says nothing.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  bytes.resize(farandole::NcclInvitation::BytesFor(kRanks));
  const absl::StatusOr<farandole::NcclInvitation> invitation = farandole::NcclInvitation::Unpack(bytes, kRanks);
  if (!invitation.ok()) return 0;
  for (const auto& [set, ranks] : invitation->sets) FD_CHECK(ranks.size() <= kRanks);
  const absl::StatusOr<farandole::NcclInvitation> again =
      farandole::NcclInvitation::Unpack(invitation->Pack(kRanks), kRanks);
  FD_CHECK(again.ok()) << again.status();
  FD_CHECK(again->sets == invitation->sets);
  return 0;
}
