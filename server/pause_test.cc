// Coordinator and workers stand still together, as by Ctrl-Z or with their virtual machine.
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

class PauseTest : public testing::Test {
 protected:
  void Beat() {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_epoch(1);
    for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, message});
  }
  void Advance(absl::Duration duration) {
    shell_.Advance(duration, [](const Actions&) {});
  }
  // All ranks live.
  void Live(absl::Duration duration) {
    const absl::Time end = shell_.now() + duration;
    while (shell_.now() < end) {
      Advance(interval_);
      Beat();
    }
  }
  bool IsRunning() const { return shell_.job().Summary().state() == v1::JOB_STATE_RUNNING; }

  TestShell shell_{JobOptions()};
  const absl::Duration interval_ = shell_.options().heartbeat_interval;
  std::vector<StreamId> streams_ = shell_.FormEpoch(2);
};

TEST_F(PauseTest, APauseOfAnyLengthAtAnyTimeLosesNobody) {
  const absl::Duration limit = 2 * shell_.options().silence_limit + interval_;
  for (absl::Duration pause = interval_ / 5; pause < limit; pause += interval_ / 5) {
    // The time since the last heartbeat at which it begins; and until the first one after it.
    for (absl::Duration phase = absl::ZeroDuration(); phase < interval_; phase += interval_ / 5) {
      for (const absl::Duration soon : {absl::Milliseconds(1), absl::Milliseconds(90)}) {
        Live(3 * interval_);
        Advance(phase);
        shell_.Oversleep(pause);
        Advance(soon);
        Beat();
        ASSERT_TRUE(IsRunning()) << pause << " at " << phase << ", heard of " << soon << " later";
      }
    }
  }
}

TEST_F(PauseTest, ARankThatDoesNotComeBackIsStillLost) {
  Live(3 * interval_);
  shell_.Oversleep(4 * interval_);
  streams_.pop_back();
  Live(shell_.options().silence_limit + 2 * interval_);
  EXPECT_FALSE(IsRunning());
}

}  // namespace
}  // namespace farandole
