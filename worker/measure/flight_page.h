#ifndef FARANDOLE_WORKER_MEASURE_FLIGHT_PAGE_H_
#define FARANDOLE_WORKER_MEASURE_FLIGHT_PAGE_H_

#include <atomic>
#include <cstdint>

namespace farandole {

// The layout of a rank's flight recorder: its latest submissions and what became of them. The memory is zero at first.
// A launcher shares it with the process, and reads it when the process is dead (FlightMemory); the process itself reads
// it under the lock under which it writes. So its words are plain, but for those that the end of the process must not
// overtake. Times are of the host's monotonic clock; 0: not yet.

enum class FlightState : uint8_t {
  kNone = 0,
  kFinished = 1,
  // Refused, since ranks disagree.
  kFailed = 2,
  // The epoch has ended before it was finished.
  kEnded = 3,
  // From here on it is open. Waits for the other ranks.
  kSubmitted = 4,
  // All ranks have submitted it, and the order log has it: its data moves. A rank that reads its order begins at once,
  // so that both have one time.
  kStarted = 5,
};

inline bool IsOpen(FlightState state) { return state >= FlightState::kSubmitted; }

struct FlightHeader {
  // FlightPage::kMagic once an epoch has begun, written last.
  std::atomic<uint64_t> magic;
  uint64_t epoch;
  uint32_t rank;
  uint32_t size;
  int64_t pid;
  // How many submissions found only open records in their way, and have none.
  uint64_t unrecorded;
  // How many names were written.
  uint32_t names;
  // Place of the record that the next submission takes, unless that is open: bytes from FlightPage::records. A closed
  // record there is not to be read: its writer may have died over it.
  alignas(64) std::atomic<uint64_t> next;
};

// Names are written once and used by many records.
struct FlightName {
  static constexpr uint32_t kMostBytes = 112;
  // Which name this is, counted from 1; 0 while it is written.
  std::atomic<uint32_t> serial;
  uint32_t group;
  // 0: the coordinator has not answered for the name yet.
  uint32_t slot;
  uint32_t bytes;
  char text[kMostBytes];
};
static_assert(sizeof(FlightName) == 128, "a name takes two cache lines");

struct alignas(64) FlightRecord {
  // The number of a FlightName.
  uint32_t name;
  // How often this rank has submitted this name in the epoch, this time included: equal on all ranks for what belongs
  // together.
  uint32_t ordinal;
  int64_t submitted_ns;
  // Elements of `dtype`.
  int64_t count;
  // Written before the record is closed.
  int64_t ended_ns;
  // Older than the submission: not started. The entry of the order log is equal on all ranks.
  int64_t started_ns;
  uint64_t batch;
  uint8_t op;
  uint8_t dtype;
  // 1: its tensors lie in a GPU; then it is finished when its work is in the GPU's queue.
  uint8_t is_on_gpu;
  // Written after all that it speaks of.
  std::atomic<FlightState> state;
};
static_assert(sizeof(FlightRecord) == 64, "a submission writes one cache line");

struct FlightPage {
  static constexpr uint64_t kMagic = 0x3230474c46445246;  // "FRDFLG02"
  // More than the 256 that are shown, so that a step of many tensors fits that wait at the same time: a record is not
  // taken from a submission that is not over.
  static constexpr uint64_t kRecords = 1024;
  // A name is written anew before a younger one takes its place while a record still needs it.
  static constexpr uint32_t kNames = 2048;

  FlightHeader header;
  FlightRecord records[kRecords];
  // For submissions that have no record. Never read.
  FlightRecord spare;
  FlightName names[kNames];
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_FLIGHT_PAGE_H_
