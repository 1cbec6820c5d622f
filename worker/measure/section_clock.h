#ifndef FARANDOLE_WORKER_MEASURE_SECTION_CLOCK_H_
#define FARANDOLE_WORKER_MEASURE_SECTION_CLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/measure/rank_record.h"

namespace farandole {

// Counts the time that the program spends in the sections that it marks ("data", "backward"), by name. It outlives
// epochs, and its times are those of the present one. Thread-safe; a call takes a lock that nobody keeps for long.
//
// All threads of the process share one stack of sections: the time belongs to the one that began last and has not
// ended. So a section within another one interrupts it, and all sections together take no more than the time that there
// is. Time in which the program waits in the library belongs to none.
class SectionClock {
 public:
  static constexpr size_t kMostSections = RankRecord::kMostSections;
  static constexpr size_t kMostNameBytes = RankRecord::kMostSectionBytes;
  // The last section is for all names that come when there are as many others.
  static constexpr absl::string_view kOthers = "(others)";
  // Sections that are open at a time.
  static constexpr size_t kMostOpen = 64;

  // A moment: by the host's monotonic clock, how long the program has waited in this epoch, and the epoch's number.
  struct Moment {
    int64_t ns = 0;
    int64_t waited_ns = 0;
    uint64_t epoch = 0;
  };

  // Begins a section, and gives its number for End; 0: kMostOpen are open, and this one does not count.
  //   INVALID_ARGUMENT: the name is empty, longer than 64 bytes, not UTF-8, or has control characters
  absl::StatusOr<int64_t> Begin(absl::string_view name, const Moment& now);
  // Ends a section, which need not be the one that began last. Nothing happens if it is not open.
  void End(int64_t number, const Moment& now);
  // Writes the names, and how long each section has taken, as far as it has come. The record is of that epoch, and
  // has no other writer of these words.
  void State(RankRecord* own, const Moment& now);

 private:
  struct Open {
    int64_t number;
    size_t section;
  };

  absl::StatusOr<size_t> FindName(absl::string_view name);
  // The time since the last call belongs to the section on top.
  void Advance(const Moment& now);
  int64_t Pending(const Moment& now) const;

  std::mutex mutex_;
  std::vector<std::string> names_;
  std::array<int64_t, kMostSections> own_ns_ = {};
  std::vector<Open> open_;
  int64_t last_number_ = 0;
  uint64_t epoch_ = 0;
  // Until when the time is counted: the moment less what the program has waited. It does not go back, as estimates of
  // short waits do.
  int64_t counted_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_SECTION_CLOCK_H_
