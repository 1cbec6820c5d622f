#ifndef FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_PARTS_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "farandole/v1/timeline.pb.h"

namespace farandole {

// The parts that a timeline had when its fetch began, as the answers bring them. Workers, which are not trusted, decide
// how large the parts are and how fast they come; the bounds here hold whatever they send. Pure.
class TimelineParts {
 public:
  // The most bytes of the parts, packed and unpacked together: some 0.5 s of the thread that writes the file.
  static constexpr uint64_t kMostBytes = 32 << 20;
  // Of the file's lines. Their times may have more digits than those of the parts, which is some bytes of some 100.
  static constexpr uint64_t kMostFileBytes = kMostBytes + kMostBytes / 4;

  // `begin` answers a request for kNoTimelineParts.
  explicit TimelineParts(const v1::GetTimelineResponse& begin);

  // Takes the answer to a request for the parts from next() on.
  //   FAILED_PRECONDITION  it is of another recording, which has replaced this one
  //   OUT_OF_RANGE         there are more than kMostBytes
  absl::Status Add(v1::GetTimelineResponse found);
  // All are there.
  bool IsWhole() const { return is_whole_; }
  uint64_t next() const { return next_; }
  // The bytes of the parts so far, packed and unpacked: a measure of the work to write their file.
  uint64_t bytes() const { return bytes_; }

  // The last answer, without its parts.
  const v1::GetTimelineResponse& about() const { return about_; }
  const std::vector<v1::TimelinePart>& parts() const { return parts_; }

 private:
  // The number of the first part that came after the beginning.
  const uint64_t end_;
  v1::GetTimelineResponse about_;
  std::vector<v1::TimelinePart> parts_;
  uint64_t bytes_ = 0;
  uint64_t next_ = 0;
  bool is_whole_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_PARTS_H_
