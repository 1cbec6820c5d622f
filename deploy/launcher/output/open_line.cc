#include "deploy/launcher/output/open_line.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/launcher/output/terminal_text.h"

namespace farandole::launcher {

std::string OpenLine::Continue(Writer writer, absl::string_view prefix, absl::string_view text) {
  if (is_open_ && writer_ == writer) {
    const std::string before = std::move(text_);
    text_ = std::string(text);
    if (absl::StartsWith(text, before)) return text_.substr(before.size());
    const size_t width = DisplayWidth(text);
    const size_t covered = DisplayWidth(before);
    return absl::StrCat("\r", prefix, text, std::string(covered > width ? covered - width : 0, ' '));
  }
  const auto found = interrupted_.find(writer);
  const size_t written =
      found != interrupted_.end() && absl::StartsWith(text, found->second) ? found->second.size() : 0;
  if (written > 0 && written == text.size()) return "";
  const std::string end = End();
  interrupted_.erase(writer);
  is_open_ = true;
  writer_ = writer;
  text_ = std::string(text);
  return absl::StrCat(end, prefix, text.substr(written));
}

std::string OpenLine::Complete(Writer writer, absl::string_view prefix, absl::string_view text) {
  const std::string rest = Continue(writer, prefix, text);
  const bool is_open_here = is_open_ && writer_ == writer;
  interrupted_.erase(writer);
  if (!is_open_here) return "";
  is_open_ = false;
  return absl::StrCat(rest, "\n");
}

std::string OpenLine::End() {
  if (!is_open_) return "";
  is_open_ = false;
  interrupted_[writer_] = std::move(text_);
  return "\n";
}

}  // namespace farandole::launcher
