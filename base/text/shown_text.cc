#include "base/text/shown_text.h"

#include "base/text/plain_text.h"

namespace farandole {

std::string ShowTime(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

std::string WithoutControls(std::string text) { return ValidText(text); }

}  // namespace farandole
