// Two tenants of one coordinator, for tests and measurements of how much one feels of the other:
//
//   neighbours quiet ADDRESS TOKEN SECONDS   a job that trains, and prints how long its calls take, as JSON
//   neighbours greedy ADDRESS TOKEN SECONDS  floods with tensors, measurements and calls, reads no answers, and prints
//                                            what became of its streams
//   neighbours hostile ADDRESS TOKEN SECONDS [HTTP]
//                                            does what BeHostile does, and prints how it ended
//
// The coordinator's --silence-limit-ms has to be long: nobody here sends signs of life.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/steady_notification.h"
#include "base/steady_time.h"
#include "nlohmann/json.hpp"
#include "server/testing/hostile.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;
using Workers = std::vector<std::unique_ptr<TestWorker>>;

struct Where {
  std::string address;
  std::string token;
  absl::Time until;
};

absl::StatusOr<Workers> Train(const Where& where, const std::string& job, uint32_t size) {
  Workers workers;
  for (uint32_t i = 0; i < size; ++i) {
    workers.push_back(std::make_unique<TestWorker>(where.address, where.token, job, i));
    if (absl::StatusOr<v1::JoinResponse> joined = workers.back()->Join(size); !joined.ok()) return joined.status();
    workers.back()->Attach();
  }
  for (const auto& worker : workers) {
    if (absl::StatusOr<v1::Epoch> epoch = worker->AwaitEpoch(); !epoch.ok()) return epoch.status();
  }
  return workers;
}

bool IsSlot(const v1::CoordinatorMessage& message) { return message.has_slot_assigned(); }

// How long one kind of call took.
class Times {
 public:
  template <typename Call>
  void Measure(const Call& call) {
    const absl::Time began = SteadyNow();
    call();
    us_.push_back(absl::ToDoubleMicroseconds(SteadyNow() - began));
  }
  Json Show() {
    std::sort(us_.begin(), us_.end());
    const auto at = [this](double part) {
      return us_.empty() ? 0.0 : us_[std::min(us_.size() - 1, static_cast<size_t>(part * us_.size()))];
    };
    return {{"calls", us_.size()}, {"p50_us", at(0.5)}, {"p99_us", at(0.99)}, {"most_us", at(1)}};
  }

 private:
  std::vector<double> us_;
};

// A known name is answered at once: its message takes the way of a heartbeat, which has no answer.
int RunQuiet(const Where& where) {
  const std::string own = absl::StrCat("quiet", getpid());
  absl::StatusOr<Workers> workers = Train(where, own, 2);
  FD_CHECK(workers.ok()) << workers.status();
  const SteadyNotification never;
  Times joins, names, echoes;
  const auto negotiate = [&](const std::string& name) {
    for (const auto& worker : *workers) FD_CHECK(worker->Send(worker->ReadyFor(name, {4, 8})));
    for (const auto& worker : *workers) FD_CHECK(worker->Await(IsSlot).ok());
  };
  negotiate("known");
  TestWorker& first = *workers->front();
  for (int turn = 0; SteadyNow() < where.until; ++turn) {
    echoes.Measure([&] {
      FD_CHECK(first.Send(first.ReadyFor("known", {4, 8})));
      FD_CHECK(first.Await(IsSlot).ok());
    });
    names.Measure([&] { negotiate(absl::StrCat("name", turn)); });
    // Some four in a second, which is the pace of launches that a tenant can keep up.
    if (turn % 20 == 0) {
      const std::string job = absl::StrCat(own, "-short", turn);
      absl::StatusOr<Workers> one;
      joins.Measure([&] { one = Train(where, job, 1); });
      FD_CHECK(one.ok()) << one.status();
      FD_CHECK(one->front()->Send(one->front()->LeaveOf(1)));
      one->front()->End().IgnoreError();
    }
    never.WaitFor(absl::Milliseconds(10));
  }
  std::cout << Json{{"join", joins.Show()}, {"negotiation", names.Show()}, {"heartbeat", echoes.Show()}} << std::endl;
  return 0;
}

class Greed {
 public:
  explicit Greed(Where where) : where_(std::move(where)) {}

  int Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([this, i] { Repeat(absl::StrCat("names", i), &Greed::FloodNames); });
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([this, i] { Repeat(absl::StrCat("beats", i), &Greed::FloodBeats); });
    threads.emplace_back([this] { Look(); });
    for (std::thread& thread : threads) thread.join();
    std::cout << Json{{"sent", sent_.load()}, {"ends", ends_}} << std::endl;
    return 0;
  }

 private:
  bool IsTime() const { return SteadyNow() < where_.until; }

  void Count(const std::string& what, const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++ends_[absl::StrCat(what, ": ", absl::StatusCodeToString(status.code()))];
  }

  // Trains again and again, since floods end streams.
  void Repeat(const std::string& job, void (Greed::*flood)(TestWorker*)) {
    const SteadyNotification never;
    for (int turn = 0; IsTime(); ++turn) {
      absl::StatusOr<Workers> workers = Train(where_, absl::StrCat(job, ".", turn), 2);
      Count("join", workers.status());
      if (workers.ok()) {
        (this->*flood)(workers->front().get());
        if (IsTime()) Count("stream", workers->front()->End());
      }
      never.WaitFor(absl::Milliseconds(100));
    }
  }

  // Tensors that the other rank never states, of 300 shapes each.
  void FloodNames(TestWorker* worker) {
    v1::WorkerMessage message = worker->ReadyFor("", {});
    for (int i = 0; i < 300; ++i) message.mutable_ready()->add_grouped_shapes()->add_dims(i);
    for (int i = 0; IsTime(); ++i) {
      message.mutable_ready()->set_name(absl::StrCat("name", i));
      if (!worker->Send(message)) return;
      ++sent_;
    }
  }

  void FloodBeats(TestWorker* worker) {
    v1::WorkerMessage message;
    v1::Heartbeat* beat = message.mutable_heartbeat();
    beat->set_epoch(1);
    beat->add_pulses()->set_rank(0);
    beat->mutable_measures()->set_interval_us(500'000);
    v1::LoggedPoints* logged = beat->add_logged();
    logged->set_epoch(1);
    for (int i = 0; i < 64; ++i) {
      logged->add_names(absl::StrCat("value", i));
      logged->add_by_rank(true);
    }
    for (uint64_t first = 1; IsTime(); first += 64) {
      logged->set_first(first);
      logged->clear_name();
      logged->clear_step();
      logged->clear_value();
      logged->clear_age_ms();
      for (uint32_t i = 0; i < 64; ++i) {
        logged->add_name(i);
        logged->add_step(static_cast<int64_t>(first));
        logged->add_value(1);
        logged->add_age_ms(0);
      }
      if (!worker->Send(message)) return;
      ++sent_;
    }
  }

  void Look() {
    TestClient client(where_.address, where_.token);
    for (int turn = 0; IsTime(); ++turn) Count("look", client.GetJob(absl::StrCat("names0.", turn % 4)).status());
  }

  const Where where_;
  std::atomic<uint64_t> sent_{0};
  std::mutex mutex_;
  std::map<std::string, uint64_t> ends_;
};

int Main(int argc, char** argv) {
  int seconds = 0;
  if (argc < 5 || argc > 6 || !absl::SimpleAtoi(argv[4], &seconds)) {
    std::cerr << "neighbours quiet|greedy|hostile ADDRESS TOKEN SECONDS [HTTP]\n";
    return 2;
  }
  const std::string part = argv[1];
  const Where where = {argv[2], argv[3], SteadyNow() + absl::Seconds(seconds)};
  if (part == "quiet") return RunQuiet(where);
  if (part == "greedy") return Greed(where).Run();
  if (part != "hostile") {
    std::cerr << "neighbours: no part is called " << part << "\n";
    return 2;
  }
  std::cout << BeHostile({where.address, argc == 6 ? argv[5] : "", where.token, where.until}) << std::endl;
  return 0;
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) { return farandole::Main(argc, argv); }
