#include "server/edge/messages/call_bound.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

struct Row {
  absl::string_view method;
  CallBound bound;
};

constexpr Row kLarge[] = {
    // A launcher sends the records of 64 workers at once: 3 MiB. As much as gRPC takes.
    {"farandole.v1.WorkerService.ReportFlight", {16 << 20, Right::kLaunch}},
    // 65,536 numbers of five bytes.
    {"farandole.v1.AdminService.DrainWorkers", {512 << 10, Right::kControlOwn}},
};

}  // namespace

CallBound BoundOf(const google::protobuf::MethodDescriptor& method) {
  for (const Row& row : kLarge) {
    if (row.method == method.full_name()) return row.bound;
  }
  return {};
}

absl::Status CheckBound(const google::protobuf::MethodDescriptor& method, int64_t wire_bytes) {
  const int64_t most = BoundOf(method).bytes;
  if (wire_bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(method.service()->name(), ".", method.name(), ": a message of ",
                                                 wire_bytes, " bytes; ", most, " is the most"));
}

}  // namespace farandole
