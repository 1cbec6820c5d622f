#include "server/testing/hostile.h"

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/steady_notification.h"
#include "base/steady_time.h"
#include "server/testing/raw_client.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using Workers = std::vector<std::unique_ptr<TestWorker>>;

constexpr char kJoin[] = "/farandole.v1.WorkerService/Join";
constexpr size_t kUnfinishedBytes = 15 << 20;
constexpr size_t kConnections = 16;
constexpr int kTensorsOfAJob = 200;

bool IsSlot(const v1::CoordinatorMessage& message) { return message.has_slot_assigned(); }

class Hostile {
 public:
  explicit Hostile(HostileTarget target) : target_(std::move(target)) {}

  nlohmann::ordered_json Run() {
    std::vector<std::thread> threads;
    for (const auto attack : {&Hostile::ReadNothing, &Hostile::SendTooMuch, &Hostile::LeaveHalfOpen, &Hostile::StayIdle,
                              &Hostile::ChangeNames, &Hostile::GuessTokens}) {
      threads.emplace_back([this, attack] {
        const SteadyNotification never;
        while (IsTime()) {
          (this->*attack)();
          never.WaitFor(absl::Milliseconds(20));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return counts_;
  }

 private:
  bool IsTime() const { return SteadyNow() < target_.until; }

  void Count(const std::string& what, const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_[absl::StrCat(what, ": ", absl::StatusCodeToString(status.code()))];
  }

  // Empty: refused, which is counted.
  Workers Train(const std::string& what, uint32_t size) {
    const std::string job = absl::StrCat(what, ".", [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return ++jobs_;
    }());
    Workers workers;
    absl::Status status;
    for (uint32_t i = 0; i < size && status.ok(); ++i) {
      workers.push_back(std::make_unique<TestWorker>(target_.address, target_.token, job, i));
      status = workers.back()->Join(size).status();
      if (status.ok()) workers.back()->Attach();
    }
    for (size_t i = 0; i < size && status.ok(); ++i) status = workers[i]->AwaitEpoch().status();
    Count(absl::StrCat(what, " joins"), status);
    if (!status.ok()) workers.clear();
    return workers;
  }

  // A known name is answered at once, and nobody reads the answers.
  void ReadNothing() {
    const Workers workers = Train("slow", 1);
    if (workers.empty()) return;
    const v1::WorkerMessage ready = workers[0]->ReadyFor("known", {4, 8});
    while (IsTime() && workers[0]->Send(ready)) {
    }
    Count("a slow reader's stream ends", workers[0]->End());
  }

  // More than a stream may have in memory, and more than a message may have on the wire.
  void SendTooMuch() {
    for (const int shapes : {400'000, 4'000'000}) {
      const Workers workers = Train("large", 1);
      if (workers.empty()) return;
      v1::WorkerMessage message = workers[0]->ReadyFor("large", {});
      for (int i = 0; i < shapes; ++i) message.mutable_ready()->add_grouped_shapes()->add_dims(i);
      workers[0]->Send(message);
      Count(absl::StrCat("the stream of a message of ", shapes, " shapes ends"), workers[0]->End());
    }
  }

  // Calls whose messages never end: with a token, with a wrong one, and without; and connections that say nothing.
  void LeaveHalfOpen() {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (size_t i = 0; i < kConnections && IsTime(); ++i) {
      clients.push_back(std::make_unique<RawClient>(target_.address));
      RawClient& client = *clients.back();
      Count("a half-open connection", client.is_open() ? absl::OkStatus() : absl::UnavailableError(""));
      if (!client.is_open() || i % 4 == 3) continue;
      client.Greet();
      client.Begin(kJoin, i % 4 == 0 ? target_.token : i % 4 == 1 ? "wrong" : "", kUnfinishedBytes);
      client.Pump(absl::Milliseconds(50));
    }
    const SteadyNotification never;
    never.WaitFor(absl::Seconds(1));
  }

  // On the pages' port.
  void StayIdle() {
    const SteadyNotification never;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (size_t i = 0; !target_.http.empty() && i < kConnections; ++i) {
      clients.push_back(std::make_unique<RawClient>(target_.http));
      Count("an idle connection of HTTP", clients.back()->is_open() ? absl::OkStatus() : absl::UnavailableError(""));
    }
    never.WaitFor(absl::Seconds(1));
  }

  // A job that was never there before, in which each tensor is new, and then is over.
  void ChangeNames() {
    const Workers workers = Train("names", 2);
    if (workers.empty()) return;
    absl::Status status;
    for (int i = 0; i < kTensorsOfAJob && status.ok() && IsTime(); ++i) {
      for (const auto& worker : workers) worker->Send(worker->ReadyFor(absl::StrCat("tensor", i), {4, 8}));
      for (size_t j = 0; j < workers.size() && status.ok(); ++j) status = workers[j]->Await(IsSlot).status();
    }
    Count("a job with new tensors", status);
    for (const auto& worker : workers) worker->Send(worker->LeaveOf(1));
    for (const auto& worker : workers) worker->End().IgnoreError();
  }

  void GuessTokens() { Count("a wrong token", TestClient(target_.address, "guess").ListJobs().status()); }

  const HostileTarget target_;
  std::mutex mutex_;
  uint64_t jobs_ = 0;
  std::map<std::string, uint64_t> counts_;
};

}  // namespace

nlohmann::ordered_json BeHostile(const HostileTarget& target) { return Hostile(target).Run(); }

}  // namespace farandole
