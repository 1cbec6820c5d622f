#include "worker/member/witness.h"

#include <sys/utsname.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/usable_cores.h"
#include "base/version.h"
#include "worker/stacks/kernel_threads.h"
#include "worker/stacks/stack_text.h"

namespace farandole {
namespace {

// An interpreter that runs Python gives its lock away within milliseconds.
constexpr int64_t kLockPatienceNs = 1'000'000'000;

}  // namespace

std::vector<std::string> DescribeSettings(const WorkerOptions& options) {
  utsname machine = {};
  uname(&machine);
  return {absl::StrCat("farandole=", kVersion),
          absl::StrCat("kernel=", machine.sysname, " ", machine.release, " ", machine.machine),
          absl::StrCat("cores=", UsableCores()),
          absl::StrCat("FARANDOLE_SIZE=", options.size),
          absl::StrCat("FARANDOLE_LAUNCH_INDEX=", options.launch_index),
          absl::StrCat("FARANDOLE_MIN_SIZE=", options.min_size),
          absl::StrCat("FARANDOLE_MAX_SIZE=", options.max_size),
          absl::StrCat("FARANDOLE_TRANSPORT=", options.transport),
          absl::StrCat("FARANDOLE_ENCRYPT=", options.encrypts ? 1 : 0),
          absl::StrCat("FARANDOLE_NETWORK_INTERFACES=", absl::StrJoin(options.network_interfaces, ",")),
          absl::StrCat("FARANDOLE_FUSION_THRESHOLD_BYTES=", options.fusion_bytes),
          absl::StrCat("FARANDOLE_STALL_WARNING_MS=", absl::ToInt64Milliseconds(options.stall_warning)),
          absl::StrCat("FARANDOLE_STALL_LIMIT_MS=", absl::ToInt64Milliseconds(options.stall_limit)),
          absl::StrCat("FARANDOLE_OUTAGE_LIMIT_MS=", absl::ToInt64Milliseconds(options.outage_limit)),
          absl::StrCat("FARANDOLE_NCCL_SPLIT=", options.nccl_splits ? 1 : 0)};
}

Witness::Witness(StackSource* stacks, std::vector<std::string> settings)
    : stacks_(stacks), settings_(std::move(settings)) {}

void Witness::Ask(const v1::EvidenceWanted& wanted, int64_t now_ns) {
  questions_.push_back({wanted, now_ns});
  if (wanted.stacks() && stacks_ != nullptr) stacks_->Begin();
}

std::vector<v1::WorkerMessage> Witness::Take(int64_t now_ns, const ReadFlightRecords& read_flight) {
  std::vector<v1::WorkerMessage> answers;
  std::vector<Question> open;
  for (const Question& question : questions_) {
    v1::WorkerMessage message;
    v1::Evidence& evidence = *message.mutable_evidence();
    evidence.set_epoch(question.wanted.epoch());
    evidence.set_inquiry(question.wanted.inquiry());
    if (question.wanted.stacks() && !AddStacks(now_ns - question.asked_ns, &evidence)) {
      open.push_back(question);
      continue;
    }
    if (question.wanted.stacks()) {
      for (v1::KernelThread& thread : ReadKernelThreads()) *evidence.add_kernel_threads() = std::move(thread);
    }
    const bool with_times = question.wanted.times();
    if (!with_times) *evidence.mutable_settings() = {settings_.begin(), settings_.end()};
    *evidence.mutable_flight() = read_flight(with_times);
    answers.push_back(std::move(message));
  }
  questions_ = std::move(open);
  return answers;
}

bool Witness::AddStacks(int64_t waited_ns, v1::Evidence* evidence) {
  if (stacks_ == nullptr || !stacks_->is_set()) {
    evidence->set_about_stacks("the program has registered no way to read its stacks; programs in Python have one");
    return true;
  }
  std::optional<std::string> text = stacks_->Take();
  if (text.has_value()) {
    evidence->set_about_stacks("read with the interpreter's lock");
  } else if (waited_ns < kLockPatienceNs) {
    return false;
  } else {
    text = stacks_->ReadWithoutLock();
    evidence->set_about_stacks(
        text->empty()
            ? "a thread keeps the interpreter's lock for more than a second, and Python's faulthandler, which "
              "needs no lock, is not available in this process"
            : "read without the interpreter's lock, which a thread keeps for more than a second: it is in a "
              "function in C that the innermost line of its stack has called");
  }
  for (v1::ThreadStack& thread : ReadStackText(*text, stacks_->main_thread()))
    *evidence->add_threads() = std::move(thread);
  return true;
}

}  // namespace farandole
