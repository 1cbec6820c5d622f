#ifndef FARANDOLE_BASE_TEXT_SHOWN_TEXT_H_
#define FARANDOLE_BASE_TEXT_SHOWN_TEXT_H_

#include <string>

#include "absl/time/time.h"

namespace farandole {

// "2026-11-21 16:36:50 UTC".
std::string ShowTime(absl::Time time);
// `text` with '?' in place of each control character, since a terminal obeys them, and of each byte that is no UTF-8.
std::string WithoutControls(std::string text);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_SHOWN_TEXT_H_
