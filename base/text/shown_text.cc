#include "base/text/shown_text.h"

#include "absl/strings/ascii.h"

namespace farandole {

std::string ShowTime(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

std::string WithoutControls(std::string text) {
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

}  // namespace farandole
