#ifndef FARANDOLE_WORKER_CONTROL_WORKER_UNDER_TEST_H_
#define FARANDOLE_WORKER_CONTROL_WORKER_UNDER_TEST_H_

#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/coordinator_client.h"
#include "worker/control/scripted_coordinator.h"

namespace farandole {

// A CoordinatorClient together with the arguments of its callbacks, for a test to wait for. Set the callbacks before
// Start only.
class WorkerUnderTest {
 public:
  CoordinatorClientOptions options;
  v1::JoinRequest join;
  absl::Duration longest_tick = absl::Milliseconds(20);
  // Runs inside on_attached, after it was counted. May be empty; needs a Start that has returned.
  std::function<void(CoordinatorClient&)> resend;

  // On the control thread.
  Inbox<v1::CoordinatorMessage> messages;
  Inbox<absl::Status> ends;
  Inbox<int> attachments;
  std::atomic<int> ticks = 0;
  std::atomic<int> hellos = 0;

  explicit WorkerUnderTest(const std::string& address) {
    options.address = address;
    options.token = "secret";
    join.set_job("mnist");
    join.mutable_member()->set_incarnation("00ff");
    join.set_wanted_size(1);
    join.set_protocol_version(1);
    join.set_join_timeout_ms(10'000);
  }

  absl::Status Start() {
    Conversation::Callbacks callbacks;
    callbacks.on_message = [this](const v1::CoordinatorMessage& message) { messages.Push(message); };
    callbacks.make_hello = [this] {
      v1::Hello hello;
      hello.set_job(join.job());
      hello.set_incarnation(join.member().incarnation());
      hello.set_epoch(++hellos);
      return hello;
    };
    callbacks.on_attached = [this] {
      attachments.Push(hellos);
      if (resend) resend(*client_);
    };
    callbacks.on_ended = [this](absl::Status status) { ends.Push(std::move(status)); };
    callbacks.on_tick = [this] { ++ticks; };
    absl::StatusOr<std::unique_ptr<CoordinatorClient>> client =
        CoordinatorClient::Start(options, join, longest_tick, std::move(callbacks));
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    return absl::OkStatus();
  }
  void Destroy() { client_.reset(); }

  CoordinatorClient* operator->() { return client_.get(); }

  static v1::WorkerMessage Ready(const std::string& name) {
    v1::WorkerMessage message;
    message.mutable_ready()->set_name(name);
    return message;
  }

  // Waits until `count` more ticks came; false after ten seconds.
  bool SeesTicks(int count) {
    absl::Notification seen;
    const int goal = ticks + count;
    std::function<void()> look = [&] {
      if (ticks >= goal) {
        seen.Notify();
      } else {
        sched_yield();
        client_->Post(look);
      }
    };
    client_->Post(look);
    return seen.WaitForNotificationWithTimeout(absl::Seconds(10));
  }

 private:
  std::unique_ptr<CoordinatorClient> client_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_WORKER_UNDER_TEST_H_
