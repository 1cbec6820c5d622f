#include "server/job/rules/wording.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"

namespace farandole {
std::string DescribeWorker(const v1::Member& member) {
  const std::string& host = member.hostname().empty() ? member.host_id() : member.hostname();
  return absl::StrCat("worker ", member.pid(), " on host ", Plain(host, 64));
}

std::string DescribeRank(uint32_t rank, const v1::Member& member) {
  return absl::StrCat("rank ", rank, " (", DescribeWorker(member), ")");
}

std::string SeenBy(absl::string_view evidence, uint32_t rank) {
  return absl::StrCat(evidence, " (seen by rank ", rank, ")");
}

std::string ShowList(absl::Span<const uint32_t> numbers) {
  constexpr size_t kMost = 64;
  return absl::StrCat("[", absl::StrJoin(numbers.subspan(0, kMost), ","), numbers.size() > kMost ? ",..." : "", "]");
}

std::string ShowShape(absl::Span<const int64_t> dims) {
  constexpr size_t kMost = 32;
  return absl::StrCat("[", absl::StrJoin(dims.subspan(0, kMost), ","), dims.size() > kMost ? ",..." : "", "]");
}

std::string ShowDuration(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  if (ms < 1000) return absl::StrCat(ms, " ms");
  const int64_t tenths = (ms + 50) / 100;
  if (tenths % 10 == 0) return absl::StrCat(tenths / 10, " s");
  return absl::StrCat(tenths / 10, ".", tenths % 10, " s");
}

std::string Count(uint64_t number, absl::string_view noun) {
  return absl::StrCat(number, " ", noun, number == 1 ? "" : "s");
}

std::string All(uint64_t number, absl::string_view noun) {
  return number == 1 ? absl::StrCat("the one ", noun) : absl::StrCat("all ", Count(number, noun));
}

std::string ShowDType(v1::DType dtype) {
  if (dtype >= 0 && dtype < kDTypeCount) return std::string(Name(static_cast<DType>(dtype)));
  return absl::StrCat("dtype ", dtype);
}

std::string ShowReduceOp(v1::ReduceOp op) {
  if (op >= 0 && op < kReduceOpCount) return std::string(Name(static_cast<ReduceOp>(op)));
  return absl::StrCat("reduce op ", op);
}

std::string ShowDevice(v1::DeviceKind device) {
  switch (device) {
    case v1::DEVICE_KIND_CPU:
      return "cpu";
    case v1::DEVICE_KIND_CUDA:
      return "cuda";
    case v1::DEVICE_KIND_CUDA_GRAPH:
      return "cuda_graph";
    default:
      return absl::StrCat("device ", device);
  }
}

}  // namespace farandole
