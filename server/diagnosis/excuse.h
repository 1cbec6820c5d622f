#ifndef FARANDOLE_SERVER_DIAGNOSIS_EXCUSE_H_
#define FARANDOLE_SERVER_DIAGNOSIS_EXCUSE_H_

#include <cstdint>
#include <string>

namespace farandole {

// A beat comes each half second: one that is so old says that the process stands still.
inline constexpr double kSilent = 0.9;
// From here on a rank is busy.
inline constexpr double kBusy = 0.5;

// The likely reason for which a rank is late.
enum class Excuse { kNone, kStoodStill, kInput, kWaits, kWork };

// `silent`: for how long its process stood still, in seconds. `busy`: the part of its own time in which its CPU, or its
// GPU, works. `is_steady`: it is late in each step, not now and then.
Excuse ExcuseOf(double silent, double busy, bool is_steady);
// For people, as the end of a sentence about the rank. `silence`: for how long it stood still.
std::string ExcuseText(Excuse excuse, const std::string& silence, uint32_t rank);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_EXCUSE_H_
