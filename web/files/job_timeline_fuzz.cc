// Lines and clocks that a worker may send in place of a timeline's: the file is written, and nothing ends the process.
// The first bytes choose the clocks, the others are the lines.
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "base/check.h"
#include "web/files/job_timeline.h"

namespace farandole {
namespace {

std::string Packed(const std::string& lines) {
  uLongf bytes = compressBound(lines.size());
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(lines.data()), lines.size());
  packed.resize(bytes);
  return packed;
}

// Small and largest numbers by a byte.
int64_t NumberOf(uint8_t byte) { return byte < 128 ? byte : INT64_MIN >> (byte - 128) / 2 | byte; }

}  // namespace
}  // namespace farandole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farandole::NumberOf;
  constexpr size_t kClocks = 3;
  if (size < kClocks || size > 1 << 16) return 0;
  const std::string lines(reinterpret_cast<const char*>(data) + kClocks, size - kClocks);
  farandole::v1::TimelinePart part;
  part.set_host_id("a");
  part.mutable_chunk()->set_lines_zlib(farandole::Packed(lines));
  part.mutable_chunk()->set_lines_bytes(static_cast<uint32_t>(lines.size()));
  part.mutable_chunk()->set_events(1);
  part.mutable_chunk()->set_ahead_ns(NumberOf(data[0]));
  part.mutable_chunk()->set_error_ns(static_cast<uint64_t>(NumberOf(data[1])));
  part.mutable_chunk()->set_sent_ns(NumberOf(data[2]));
  farandole::v1::TimelinePart other = part;
  other.set_host_id("b");
  other.mutable_chunk()->set_sent_ns(NumberOf(data[0]));
  std::ostringstream text;
  const absl::StatusOr<farandole::JobTimeline> written = farandole::WriteJobTimeline({}, {part, other}, text);
  FD_CHECK(written.ok());
  FD_CHECK(written->error_ns >= 0);
  return 0;
}
