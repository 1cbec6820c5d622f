#ifndef FARANDOLE_SERVER_BYTES_BYTE_KIND_H_
#define FARANDOLE_SERVER_BYTES_BYTE_KIND_H_

#include <cstddef>
#include <cstdint>

namespace farandole {

// Kinds of memory that the coordinator holds on behalf of a job.
enum class ByteKind : uint8_t {
  // Messages and calls that wait for their Step.
  kEvents,
  // Rows that wait for the disk.
  kCommits,
  // Messages that wait for their workers to read them, or for the disk.
  kOutgoing,
  // Answers to calls that their clients have not read.
  kAnswers,
  // Messages that were read and wait for room among the events.
  kPaused,
  // Large messages of calls: those that wait to be read, and those that were read, until the call ends.
  kRequests,
  // Statements about tensors that some ranks have made and others have not, and slots.
  kNames,
  // Reports of ranks about a stall, and evidence for `farandole diagnose`.
  kReports,
  // The last hour of each rank's measurements.
  kMeasurements,
  // Recorded timelines.
  kTimelines,
  // Values that programs log of themselves.
  kLogged,
  // Catalogues of checkpoints.
  kCheckpoints,
};
inline constexpr size_t kByteKinds = 12;

// Each pool has limits of its own, so that what is kept for long never takes the room of what is on its way.
// Neither do messages to workers that do not read take the room of those that come, nor do answers to those who look.
// A catalogue of checkpoints never becomes smaller, and must not take the room of measurements for good.
// Calls take no room of streams.
enum class BytePool : uint8_t { kQueued, kOutgoing, kAnswers, kPaused, kRequests, kKept, kCatalogues };
inline constexpr size_t kBytePools = 7;

constexpr BytePool PoolOf(ByteKind kind) {
  if (kind == ByteKind::kEvents || kind == ByteKind::kCommits) return BytePool::kQueued;
  if (kind == ByteKind::kOutgoing) return BytePool::kOutgoing;
  if (kind == ByteKind::kAnswers) return BytePool::kAnswers;
  if (kind == ByteKind::kRequests) return BytePool::kRequests;
  if (kind == ByteKind::kCheckpoints) return BytePool::kCatalogues;
  return kind == ByteKind::kPaused ? BytePool::kPaused : BytePool::kKept;
}

// As metrics call it.
constexpr const char* NameOf(ByteKind kind) {
  constexpr const char* kNames[kByteKinds] = {"events",       "commits",   "outgoing", "answers",
                                              "paused",       "requests",  "names",    "reports",
                                              "measurements", "timelines", "logged",   "checkpoints"};
  return kNames[static_cast<size_t>(kind)];
}

// The order in which a full account refuses: observers may fill half of it, those who join three quarters, running jobs
// all of it.
enum class ByteClass : uint8_t { kObserver, kJoin, kJob };

constexpr int64_t ShareOf(ByteClass who, int64_t limit) {
  switch (who) {
    case ByteClass::kObserver:
      return limit / 2;
    case ByteClass::kJoin:
      return limit / 4 * 3;
    case ByteClass::kJob:
      break;
  }
  return limit;
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_BYTE_KIND_H_
