#include "worker/member/witness.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/usable_cores.h"
#include "base/version.h"
#include "worker/launch/own_program.h"
#include "worker/stacks/kernel_threads.h"
#include "worker/stacks/native_frames.h"
#include "worker/stacks/stack_text.h"

namespace farandole {
namespace {

// An interpreter that runs Python gives its lock away within milliseconds.
constexpr int64_t kLockPatienceNs = 1'000'000'000;
// The coordinator waits for 4 s, and a busy host needs some of them for the answer.
constexpr int64_t kNativePatienceNs = 2'500'000'000;

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

WitnessSources::WitnessSources(const WorkerOptions& options)
    : native(options.native_stacks
                 ? NativeSource(FindOwnProgram(options),
                                "native stacks are not read: there is no `farandole` beside the worker library nor in "
                                "PATH; set FARANDOLE_PROGRAM to its path, or start the job by `farandole run`")
                 : NativeSource("", "FARANDOLE_NATIVE_STACKS is 0: native stacks are not read")),
      settings(DescribeSettings(options)) {}

Witness::Witness(StackSource* stacks, WitnessSources sources) : stacks_(stacks), sources_(std::move(sources)) {}

void Witness::Ask(const v1::EvidenceWanted& wanted, int64_t now_ns) {
  questions_.push_back({wanted, now_ns});
  if (!wanted.stacks()) return;
  if (stacks_ != nullptr) stacks_->Begin();
  sources_.native.Begin();
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
    if (!with_times) *evidence.mutable_settings() = {sources_.settings.begin(), sources_.settings.end()};
    *evidence.mutable_flight() = read_flight(with_times);
    answers.push_back(std::move(message));
  }
  questions_ = std::move(open);
  return answers;
}

bool Witness::AddStacks(int64_t waited_ns, v1::Evidence* evidence) {
  const std::optional<v1::NativeStacks> native = sources_.native.Take();
  if (!native.has_value() && waited_ns < kNativePatienceNs) return false;
  if (stacks_ != nullptr && stacks_->is_set()) {
    std::optional<std::string> text = stacks_->Take();
    if (!text.has_value() && waited_ns < kLockPatienceNs) return false;
    if (text.has_value()) {
      evidence->set_about_stacks("read with the interpreter's lock");
    } else {
      text = stacks_->ReadWithoutLock();
      evidence->set_about_stacks(
          text->empty()
              ? "a thread keeps the interpreter's lock for more than a second, and Python's faulthandler, which "
                "needs no lock, is not available in this process"
              : "read without the interpreter's lock, which a thread keeps for more than a second: it is in a "
                "function in C that the innermost line of its stack has called");
    }
    AddThreads(*text, evidence);
  }
  if (native.has_value()) {
    AddNativeStacks(*native, static_cast<uint32_t>(getpid()), evidence);
  } else {
    evidence->set_about_native_stacks("native stacks were not read within 2.5 s");
  }
  return true;
}

void Witness::AddThreads(const std::string& text, v1::Evidence* evidence) {
  const std::string about = StackTextAbout(text);
  if (!about.empty()) evidence->set_about_stacks(about);
  for (v1::ThreadStack& thread : ReadStackText(text, stacks_->main_thread()))
    *evidence->add_threads() = std::move(thread);
}

}  // namespace farandole
