#include "server/edge/routes/timeline_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Of a part beside its lines.
constexpr uint64_t kPartBytes = 256;

}  // namespace

TimelineParts::TimelineParts(const v1::GetTimelineResponse& begin) : end_(begin.next()), about_(begin) {}

absl::Status TimelineParts::Add(v1::GetTimelineResponse found) {
  if (found.recording() != about_.recording()) {
    return absl::FailedPreconditionError(
        absl::StrCat("timeline ", found.recording(), " has replaced timeline ", about_.recording(), " meanwhile"));
  }
  for (v1::TimelinePart& part : *found.mutable_parts()) {
    if (part.number() >= end_) break;
    bytes_ += kPartBytes + part.chunk().lines_zlib().size() + part.chunk().lines_bytes();
    if (bytes_ > kMostBytes)
      return absl::OutOfRangeError(absl::StrCat("the timeline has more than ", kMostBytes, " bytes"));
    parts_.push_back(std::move(part));
  }
  next_ = found.next();
  is_whole_ = next_ == 0 || next_ >= end_;
  found.clear_parts();
  about_ = std::move(found);
  return absl::OkStatus();
}

}  // namespace farandole
