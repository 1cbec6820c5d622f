#include "server/diagnosis/excuse.h"

#include "absl/strings/str_cat.h"

namespace farandole {

Excuse ExcuseOf(double silent, double busy, bool is_steady) {
  if (silent >= kSilent && !is_steady) return Excuse::kStoodStill;
  if (busy >= kBusy) return Excuse::kWork;
  return is_steady ? Excuse::kInput : Excuse::kWaits;
}

std::string ExcuseText(Excuse excuse, const std::string& silence, uint32_t rank) {
  switch (excuse) {
    case Excuse::kNone:
      return "";
    case Excuse::kStoodStill:
      return absl::StrCat("its process stood still for up to ", silence, " (stopped, or without a CPU)");
    case Excuse::kInput:
      return "as for its input";
    case Excuse::kWaits:
      return "as for input, a lock, or a device";
    case Excuse::kWork:
      return rank == 0 ? "as for a validation, a checkpoint, or garbage collection"
                       : "as for garbage collection, or work that others do not have";
  }
  return "";
}

}  // namespace farandole
