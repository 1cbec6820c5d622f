#include "server/job/names/untold_slots.h"

namespace farandole {

UntoldSlots::UntoldSlots(const v1::Hello& hello, const Negotiation& negotiation) : end_(negotiation.next_slot()) {
  for (const v1::SlotAssigned& slot : hello.slots()) known_.insert(slot.slot());
}

std::vector<v1::SlotAssigned> UntoldSlots::Take(const Negotiation& negotiation, const GroupTable& groups, size_t most) {
  std::vector<v1::SlotAssigned> taken;
  const auto& slots = negotiation.slots();
  for (auto one = slots.lower_bound(next_); one != slots.end() && one->first < end_; ++one) {
    const auto& [number, slot] = *one;
    if (known_.contains(number) || groups.Contains(slot.group(), 0)) continue;
    next_ = number;
    if (taken.size() == most) return taken;
    taken.push_back(slot);
  }
  next_ = end_;
  return taken;
}

}  // namespace farandole
