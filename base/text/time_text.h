#ifndef FARANDOLE_BASE_TEXT_TIME_TEXT_H_
#define FARANDOLE_BASE_TEXT_TIME_TEXT_H_

#include <string>

#include "absl/time/time.h"

namespace farandole {

// "2026-11-26T12:45:00Z": UTC, as RFC 3339 has it, with whole seconds.
std::string UtcText(absl::Time time);
// The same with milliseconds: "2026-11-26T12:45:00.250Z".
std::string UtcTextMs(absl::Time time);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_TIME_TEXT_H_
