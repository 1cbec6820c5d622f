#include "worker/stacks/native_source.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/quiet_thread.h"
#include "base/text/plain_text.h"
#include "worker/launch/process_environment.h"
#include "worker/stacks/unnoticed_program.h"

namespace farandole {
namespace {

// The coordinator waits for 4 s, and a worker looks every half second.
constexpr absl::Duration kPatience = absl::Milliseconds(1800);
constexpr absl::Duration kLimit = absl::Milliseconds(2500);
// 64 threads of 100 frames with long names.
constexpr size_t kMostBytes = 4 << 20;

// Where Yama lets only ancestors trace a process, it lets those as well whom the process names: here its descendants,
// for as long as this object lives.
class LetDescendantsTrace {
 public:
  LetDescendantsTrace() {
    std::string scope;
    std::getline(std::ifstream("/proc/sys/kernel/yama/ptrace_scope"), scope);
    is_needed_ = scope == "1" && prctl(PR_SET_PTRACER, getpid()) == 0;
  }
  ~LetDescendantsTrace() {
    if (is_needed_) prctl(PR_SET_PTRACER, 0);
  }
  LetDescendantsTrace(const LetDescendantsTrace&) = delete;
  LetDescendantsTrace& operator=(const LetDescendantsTrace&) = delete;

 private:
  bool is_needed_ = false;
};

v1::NativeStacks Without(const std::string& why) {
  v1::NativeStacks none;
  none.set_about(Plain(why, 500));
  return none;
}

v1::NativeStacks Read(const std::string& program) {
  const LetDescendantsTrace permission;
  const absl::StatusOr<std::string> message =
      RunUnnoticed({program, "stacks", absl::StrCat(getpid()), "--message", "--skip", absl::StrCat(syscall(SYS_gettid)),
                    "--patience-ms", absl::StrCat(absl::ToInt64Milliseconds(kPatience))},
                   ProcessEnvironment(), kMostBytes, kLimit);
  if (!message.ok()) return Without(std::string(message.status().message()));
  v1::NativeStacks stacks;
  if (!stacks.ParseFromString(*message)) return Without(absl::StrCat(program, " is of another version, and not read"));
  return stacks;
}

}  // namespace

NativeSource::NativeSource(std::string program, std::string why_none)
    : program_(std::move(program)), why_none_(std::move(why_none)) {}

void NativeSource::Begin() {
  if (reading_ != nullptr && !Take().has_value()) return;
  reading_ = std::make_shared<Reading>();
  if (program_.empty()) {
    reading_->stacks = Without(why_none_);
    reading_->is_over = true;
    return;
  }
  const bool runs = DetachQuietly([reading = reading_, program = program_] {
    v1::NativeStacks stacks = Read(program);
    const std::lock_guard<std::mutex> lock(reading->mutex);
    reading->stacks = std::move(stacks);
    reading->is_over = true;
  });
  if (runs) return;
  reading_->stacks = Without("the system has no room for a thread more");
  reading_->is_over = true;
}

std::optional<v1::NativeStacks> NativeSource::Take() const {
  if (reading_ == nullptr) return std::nullopt;
  const std::lock_guard<std::mutex> lock(reading_->mutex);
  if (!reading_->is_over) return std::nullopt;
  return reading_->stacks;
}

}  // namespace farandole
