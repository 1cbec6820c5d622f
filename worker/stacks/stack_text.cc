#include "worker/stacks/stack_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

constexpr size_t kMostThreads = 64;
constexpr int kMostFrames = 100;
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostTextBytes = 512;

// The text between `open` and `close`; "" where there is none.
absl::string_view Between(absl::string_view line, absl::string_view open, absl::string_view close) {
  const size_t begin = line.find(open);
  if (begin == absl::string_view::npos) return "";
  const size_t end = line.find(close, begin + open.size());
  if (end == absl::string_view::npos) return "";
  return line.substr(begin + open.size(), end - begin - open.size());
}

// False: the line is none of a thread's beginning.
bool ReadHeading(absl::string_view line, v1::ThreadStack* thread, uint64_t* number) {
  if (!absl::ConsumePrefix(&line, "Current thread 0x") && !absl::ConsumePrefix(&line, "Thread 0x")) return false;
  const size_t digits = std::min(line.find(' '), line.size());
  if (!absl::SimpleHexAtoi(line.substr(0, digits), number)) return false;
  thread->set_name(ValidText(Between(line, " [", "]").substr(0, kMostNameBytes)));
  uint32_t tid = 0;
  if (absl::SimpleAtoi(Between(line, " tid=", " "), &tid)) thread->set_tid(tid);
  return true;
}

void ReadFrame(absl::string_view line, v1::ThreadStack* thread) {
  if (!absl::ConsumePrefix(&line, "  File \"") || thread->frames_size() >= kMostFrames) return;
  const size_t quote = line.rfind("\", line ");
  if (quote == absl::string_view::npos) return;
  v1::StackFrame* const frame = thread->add_frames();
  frame->set_file(ValidText(line.substr(0, quote).substr(0, kMostTextBytes)));
  absl::string_view rest = line.substr(quote + sizeof("\", line ") - 1);
  const size_t in = rest.find(" in ");
  uint32_t number = 0;
  if (absl::SimpleAtoi(rest.substr(0, in), &number)) frame->set_line(number);
  if (in != absl::string_view::npos) frame->set_function(ValidText(rest.substr(in + 4).substr(0, kMostTextBytes)));
}

}  // namespace

std::string StackTextAbout(absl::string_view text) {
  absl::string_view line = text.substr(0, text.find('\n'));
  return absl::ConsumePrefix(&line, "about: ") ? Plain(line, kMostTextBytes) : "";
}

std::vector<v1::ThreadStack> ReadStackText(absl::string_view text, uint64_t main_thread) {
  std::vector<v1::ThreadStack> threads;
  size_t main = 0;
  bool is_main_known = false;
  bool is_within = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    v1::ThreadStack thread;
    uint64_t number = 0;
    if (ReadHeading(line, &thread, &number)) {
      is_within = threads.size() < kMostThreads || number == main_thread;
      if (!is_within) continue;
      if (number == main_thread) {
        main = threads.size();
        is_main_known = true;
      }
      threads.push_back(std::move(thread));
    } else if (is_within) {
      ReadFrame(line, &threads.back());
    }
  }
  if (threads.empty()) return threads;
  if (!is_main_known) main = threads.size() - 1;
  if (threads[main].name().empty()) threads[main].set_name("MainThread");
  std::rotate(threads.begin(), threads.begin() + static_cast<int64_t>(main),
              threads.begin() + static_cast<int64_t>(main) + 1);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  return threads;
}

}  // namespace farandole
