// Frames from another host: none is misread, and a frame that is taken says the same when it is written again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "worker/order/relay_frame.h"

namespace {

constexpr int kSize = 8;

std::string Write(const farandole::RelayFrame& frame) {
  std::string bytes;
  if (frame.kind == farandole::RelayFrame::Kind::kPost) farandole::AppendPost(frame.rank, frame.post, &bytes);
  if (frame.kind == farandole::RelayFrame::Kind::kEntry) farandole::AppendEntry(frame.entry, &bytes);
  if (frame.kind == farandole::RelayFrame::Kind::kEnd) farandole::AppendEnd(frame.end, &bytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (!bytes.empty()) {
    farandole::RelayFrame frame;
    const absl::StatusOr<size_t> taken = farandole::TakeFrame(bytes, kSize, &frame);
    if (!taken.ok() || *taken == 0) return 0;
    FD_CHECK_LE(*taken, bytes.size());
    const std::string written = Write(frame);
    farandole::RelayFrame again;
    const absl::StatusOr<size_t> length = farandole::TakeFrame(written, kSize, &again);
    FD_CHECK(length.ok()) << length.status();
    FD_CHECK_EQ(*length, written.size());
    FD_CHECK(Write(again) == written);
    bytes.remove_prefix(*taken);
  }
  return 0;
}
