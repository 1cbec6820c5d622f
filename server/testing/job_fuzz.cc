// Workers, launchers and people may send well-formed messages in any order: the job keeps its promises, which TestShell
// watches, and its rows are those of a job.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

// Reads the input as steps: a kind, a number, and the bytes of a message after their length (two bytes).
class Steps {
 public:
  Steps(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool Next() {
    if (left_ < 4) return false;
    kind_ = data_[0];
    number_ = data_[1];
    size_t length = data_[2] + size_t{256} * data_[3];
    data_ += 4;
    left_ -= 4;
    if (length > left_) length = left_;
    text_.assign(reinterpret_cast<const char*>(data_), length);
    data_ += length;
    left_ -= length;
    return true;
  }
  int kind() const { return kind_; }
  int number() const { return number_; }
  const std::string& text() const { return text_; }
  // False: the bytes are no such message, which gRPC would not have given to anybody.
  template <typename Message>
  bool Parse(Message* message) const {
    return message->ParseFromString(text_);
  }

 private:
  const uint8_t* data_;
  size_t left_;
  int kind_ = 0;
  int number_ = 0;
  std::string text_;
};

class World {
 public:
  World() : shell_(Options()) {}

  void Step(const Steps& steps) {
    switch (steps.kind() % 16) {
      case 0:
        return Call<JoinRequested>(steps);
      case 1:
        return Open(steps);
      case 2:
      case 3:
      case 4:
        return Say(steps);
      case 5:
        return Close(steps);
      case 6:
        return Call<BeginCheckpointRequested>(steps);
      case 7:
        return Call<CommitCheckpointRequested>(steps);
      case 8:
        return Call<FindCheckpointRequested>(steps);
      case 9:
        return Call<ExitReported>(steps);
      case 10:
        return Call<FlightReported>(steps);
      case 11:
        return Call<JobClaimed>(steps);
      case 12:
        return Ask(steps);
      case 13:
        return shell_.Advance(absl::Milliseconds(steps.number() * 40), [](const Actions&) {});
      case 14:
        if (steps.number() % 8 == 0) shell_.Restart([](const Actions&) {});
        return;
      default:
        DrainRequested drain;
        drain.call = shell_.NewCall();
        if (steps.number() % 2 == 0) drain.rank = steps.number() / 2;
        drain.hostname = steps.text();
        shell_.Step(drain);
    }
  }
  void Check() const { FD_CHECK(shell_.broken().empty()) << absl::StrJoin(shell_.broken(), "; "); }

 private:
  static JobOptions Options() {
    JobOptions options;
    options.max_workers = 64;
    options.max_slots = 16;
    options.max_groups = 4;
    return options;
  }

  template <typename Requested>
  void Call(const Steps& steps) {
    Requested event;
    if (!steps.Parse(&event.request)) return;
    event.call = shell_.NewCall();
    shell_.Step(event);
  }
  void Open(const Steps& steps) {
    StreamOpened event;
    if (!steps.Parse(&event.hello) || streams_.size() > 64) return;
    event.stream = shell_.NewStream();
    streams_.push_back(event.stream);
    shell_.Step(event);
  }
  // A stream that is open; 0: there is none.
  StreamId SomeStream(const Steps& steps) const {
    if (streams_.empty()) return 0;
    const StreamId stream = streams_[steps.number() % streams_.size()];
    return shell_.IsOpen(stream) ? stream : 0;
  }
  void Say(const Steps& steps) {
    MessageReceived event;
    event.stream = SomeStream(steps);
    if (event.stream != 0 && steps.Parse(&event.message)) shell_.Step(event);
  }
  void Close(const Steps& steps) {
    const StreamId stream = SomeStream(steps);
    if (stream != 0) shell_.Close(stream, "closed");
  }
  void Look(const Steps& steps) {
    HistoryAsked asked{static_cast<uint32_t>(steps.number())};
    asked.host_id = steps.text();
    asked.latest = absl::Minutes(static_cast<int64_t>(steps.number()));
    shell_.Step(JobInspected{shell_.NewCall(), asked});
  }
  void Ask(const Steps& steps) {
    switch (steps.number() % 9) {
      case 0:
        Look(steps);
        return;
      case 1:
        shell_.Step(CheckpointsListed{shell_.NewCall(), steps.number(), 0, static_cast<size_t>(steps.number())});
        return;
      case 2:
        shell_.Step(LostListed{shell_.NewCall()});
        return;
      case 3:
        shell_.Step(AbortRequested{shell_.NewCall(), steps.text(), steps.number() % 4 == 1});
        return;
      case 4:
        shell_.Step(DeleteRequested{shell_.NewCall()});
        return;
      case 5:
        shell_.Step(DeleteCheckpointRequested{shell_.NewCall(), steps.text(), steps.number()});
        return;
      case 6:
        shell_.Step(CheckpointAsked{shell_.NewCall(), steps.text()});
        return;
      case 7:
        shell_.Step(CollectivesSurveyed{shell_.NewCall()});
        return;
      default:
        shell_.Step(EvidenceRequested{shell_.NewCall(), steps.number() % 4 == 1, steps.number() % 4 == 3});
    }
  }

  TestShell shell_;
  std::vector<StreamId> streams_;
};

}  // namespace
}  // namespace farandole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farandole::Steps steps(data, size);
  farandole::World world;
  while (steps.Next()) world.Step(steps);
  world.Check();
  return 0;
}
