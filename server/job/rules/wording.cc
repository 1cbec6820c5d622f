#include "server/job/rules/wording.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/op_type.h"

namespace farandole {
namespace {

// Bytes of the UTF-8 sequence that starts `text`; 0 if it is broken.
size_t SequenceLength(absl::string_view text) {
  const unsigned char lead = static_cast<unsigned char>(text[0]);
  size_t length = 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) length = 2;
  if (lead >= 0xE0 && lead < 0xF0) length = 3;
  if (lead >= 0xF0 && lead < 0xF5) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::string Plain(absl::string_view text, size_t limit) {
  std::string plain;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F);
    const absl::string_view piece = length == 0 || control ? absl::string_view("?") : text.substr(0, length);
    if (plain.size() + piece.size() > limit) return absl::StrCat(plain, "...");
    plain.append(piece.data(), piece.size());
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return plain;
}

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

std::string ShowRanks(absl::Span<const uint32_t> ascending) {
  constexpr int kMostRuns = 8;
  std::string text = ascending.size() == 1 ? "rank " : "ranks ";
  size_t i = 0;
  for (int runs = 0; i < ascending.size() && runs < kMostRuns; ++runs) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (runs > 0) text += ",";
    absl::StrAppend(&text, ascending[i]);
    if (last > i) absl::StrAppend(&text, last == i + 1 ? "," : "-", ascending[last]);
    i = last + 1;
  }
  if (i < ascending.size()) absl::StrAppend(&text, " and ", ascending.size() - i, " more");
  return text;
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

std::string ShowOp(v1::OpType op) {
  if (op >= 0 && op < kOpTypeCount) return std::string(TraitsOf(static_cast<OpType>(op)).name);
  return absl::StrCat("op ", op);
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
