#ifndef FARANDOLE_SERVER_DIAGNOSIS_SECTION_TIMES_H_
#define FARANDOLE_SERVER_DIAGNOSIS_SECTION_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/diagnosis/memory_budget.h"
#include "server/diagnosis/recent_slots.h"

namespace farandole {

// How much of its own time each rank of an epoch has spent in the sections that its program marks, in the last half
// minute. Pure. Memory is taken from the budget for each name, 16 bytes a rank; where it is refused, and beyond
// kMostSections names, a section is not kept.
class SectionTimes {
 public:
  static constexpr size_t kMostSections = 32;

  // `budget`: null where all may be kept; outlives this object.
  SectionTimes(size_t ranks, MemoryBudget* budget) : ranks_(ranks), memory_(budget) {}

  // A heartbeat that is within its bounds.
  void Take(const v1::Heartbeat& heartbeat, absl::Duration since_began);

  // Sections in the order in which they were heard of.
  size_t count() const { return sections_.size(); }
  const std::string& name(size_t section) const { return sections_[section].name; }
  double Seconds(uint32_t rank, size_t section) const;
  // The rank's steps in the same time.
  uint64_t Steps(uint32_t rank) const;
  // Seconds by steps; 0: it has made none.
  double SecondsAStep(uint32_t rank, size_t section) const;

 private:
  using Seconds4 = std::array<float, RecentSlots::kSlots>;
  struct Section {
    std::string name;
    // By rank.
    std::vector<Seconds4> seconds;
  };
  // Null: it is not kept.
  Section* Find(const std::string& name);

  const size_t ranks_;
  MemoryShare memory_;
  RecentSlots slots_;
  std::vector<Section> sections_;
  // By rank, from the first section on.
  std::vector<std::array<uint32_t, RecentSlots::kSlots>> steps_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_SECTION_TIMES_H_
