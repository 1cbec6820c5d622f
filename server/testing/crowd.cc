// A coordinator whose only job has as many ranks as wanted, all in this process: the real loops, judgement and HTTP
// edge, and the messages that workers would send. For tests of the dashboard at sizes that no test machine can run.
//
//   crowd RANKS [JOBS]
//
// JOBS: so many others that the list has, without loops of their own; one in ten of them runs, and its numbers change
// all the time. Prints the page's address and ends when its standard input does; "lose RANK" there has that rank's
// stream end.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/steady_time.h"
#include "base/version.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "server/edge/call_router.h"
#include "server/edge/job_views.h"
#include "server/edge/live_events.h"
#include "server/edge/output_router.h"
#include "server/edge/routes/monitor_routes.h"
#include "server/loop/job_loops.h"
#include "server/metrics/metrics.h"
#include "server/queue/quota_gate.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"
#include "server/store/memory_store.h"
#include "spdlog/spdlog.h"
#include "web/http_edge.h"
#include "web/sign_in.h"
#include "web/status_site.h"

namespace farandole {
namespace {

constexpr char kToken[] = "crowd";
constexpr char kJob[] = "crowd";
constexpr uint32_t kRanksPerHost = 8;
constexpr uint32_t kStepsPerBeat = 5;
constexpr uint64_t kBeatUs = 500'000;
// Of the other jobs.
constexpr uint32_t kRunsOneIn = 10;
// The rank for which the others wait, out of all: its number among 10,240 is 4711.
uint32_t SlowRank(uint32_t ranks) { return ranks > 4711 ? 4711 : ranks / 2; }

class Crowd {
 public:
  Crowd(uint32_t ranks, uint32_t jobs) : ranks_(ranks), slow_(SlowRank(ranks)), others_(jobs) {
    v1::TenantRecord tenant;
    tenant.set_name("default");
    tenant.set_max_workers(ranks);
    FD_CHECK(tenants_.Put(std::move(tenant)).ok());
    JobLoopOptions options;
    options.random_bytes = [](size_t bytes) { return std::string(bytes, 's'); };
    options.job.max_workers = ranks;
    options.mailbox_capacity = 1 << 20;
    loops_ = std::make_unique<JobLoops>(
        1, options, JobLoopDependencies{store_.get(), &outputs_, &metrics_, &jobs_, &tenants_, &gate_});
    router_ = std::make_unique<CallRouter>(&tenants_, nullptr, loops_.get(), &outputs_, &metrics_, nullptr);
    views_ = std::make_unique<JobViews>(router_.get(), [] { return absl::Now(); });
    events_ = std::make_unique<LiveEvents>(
        &jobs_, [this](const HttpRequest& request) { return sign_in_.CallerOf(request); },
        [this](const JobKey& key) { views_->Expire(key); }, [] { return absl::Now(); });
    HttpSite site = MakeStatusSite(&sign_in_);
    site.tick = [this] { events_->Tick(); };
    for (HttpRoute& route : MonitorRoutes({router_.get(), &jobs_, store_.get(), views_.get(), events_.get()}))
      site.routes.push_back(std::move(route));
    auto edge = HttpEdge::Start(HttpEdgeOptions(), std::move(site));
    FD_CHECK(edge.ok());
    edge_ = *std::move(edge);
  }
  ~Crowd() {
    io_.stop();
    beats_.join();
    loops_->Stop();
    outputs_.calls().AnswerAll(absl::UnavailableError("the crowd has gone"));
    edge_.reset();
  }

  void Gather() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) Join(rank);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      StreamOpened event{rank + 1, {}};
      event.hello.set_job(kJob);
      event.hello.set_incarnation(IncarnationOf(rank));
      Push(std::move(event));
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank) Say(rank, Ready());
    for (uint32_t rank = 0; rank < ranks_; rank += kRanksPerHost) Beat(rank);
    for (uint32_t number = 0; number < others_; ++number) ShowOther(number);
    Tick();
    beats_ = std::thread([this] { io_.run(); });
  }
  void Lose(uint32_t rank) {
    v1::WorkerMessage message;
    message.mutable_peer_lost()->set_epoch(1);
    message.mutable_peer_lost()->set_rank(rank);
    message.mutable_peer_lost()->set_evidence("its process ended");
    Say(rank == 0 ? 1 : 0, std::move(message));
  }
  uint16_t port() const { return edge_->port(); }

 private:
  static std::string IncarnationOf(uint32_t rank) { return absl::StrFormat("%032x", rank + 1); }

  void Push(Event event) { FD_CHECK(loops_->Push({"default", kJob}, std::move(event)).ok()); }
  void Say(uint32_t rank, v1::WorkerMessage message) { Push(MessageReceived{rank + 1, std::move(message)}); }

  void Join(uint32_t rank) {
    const CallId call = outputs_.calls().Add([](const absl::Status& status, ReplyMessage) {
      if (!status.ok()) std::cerr << status << std::endl;
      FD_CHECK(status.ok());
    });
    JoinRequested event{call, {}};
    event.request.set_job(kJob);
    v1::Member* member = event.request.mutable_member();
    const uint32_t host = rank / kRanksPerHost;
    member->set_incarnation(IncarnationOf(rank));
    member->set_host_id(absl::StrCat("host-", host));
    member->set_hostname(absl::StrCat("node-", host));
    member->set_pid(10'000 + rank);
    event.request.set_wanted_size(ranks_);
    event.request.set_launch_index(rank);
    event.request.set_protocol_version(1);
    event.request.set_version(kVersion);
    event.request.set_join_timeout_ms(600'000);
    event.request.set_stall_warning_ms(60'000);
    Push(std::move(event));
  }

  static v1::WorkerMessage Ready() {
    v1::WorkerMessage message;
    v1::Ready* ready = message.mutable_ready();
    ready->set_name("gradient/layer4");
    ready->set_op(v1::OP_TYPE_ALLREDUCE);
    ready->set_dtype(v1::DTYPE_F32);
    ready->set_reduce_op(v1::REDUCE_OP_SUM);
    ready->add_shape(4096);
    ready->set_prescale(1);
    ready->set_postscale(1);
    return message;
  }

  void Tick() {
    timer_.expires_after(std::chrono::microseconds(kBeatUs / 10));
    timer_.async_wait([this](const boost::system::error_code&) {
      // A tenth of the hosts each time, as hosts beat at different moments.
      for (uint32_t host = tick_ % 10; host * kRanksPerHost < ranks_; host += 10) Beat(host * kRanksPerHost);
      if (tick_ % 10 == 0) {
        for (uint32_t number = 0; number < others_; number += kRunsOneIn) ShowOther(number);
      }
      ++tick_;
      Tick();
    });
  }

  void ShowOther(uint32_t number) {
    const bool runs = number % kRunsOneIn == 0;
    const std::string name = absl::StrFormat("other-%03d", number);
    v1::JobSummary summary;
    summary.set_tenant("default");
    summary.set_job(name);
    summary.set_state(runs ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_FINISHED);
    summary.set_reason(runs ? "epoch 1 formed: all 8 workers joined" : "all workers left");
    summary.set_epoch(1);
    summary.set_size(8);
    summary.set_wanted_size(8);
    summary.set_created_unix_ms(absl::ToUnixMillis(began_) - 1000 * (number + 1));
    if (runs) {
      summary.set_batches_per_second(std::uniform_real_distribution<double>(90, 110)(random_));
      summary.set_steps_per_second(summary.batches_per_second() / 10);
    }
    jobs_.Update({"default", name}, std::move(summary));
  }

  // The host whose first rank that is: all ranks compute for 60 % of the time but the slow one, which others wait for.
  void Beat(uint32_t first) {
    v1::WorkerMessage message;
    v1::Heartbeat* heartbeat = message.mutable_heartbeat();
    heartbeat->set_epoch(1);
    v1::Measures* measures = heartbeat->mutable_measures();
    measures->set_interval_us(kBeatUs);
    std::uniform_int_distribution<int64_t> noise(-15'000, 15'000);
    for (uint32_t rank = first; rank < std::min(first + kRanksPerHost, ranks_); ++rank) {
      v1::Pulse* pulse = heartbeat->add_pulses();
      pulse->set_rank(rank);
      pulse->set_beat(tick_ + 1);
      pulse->set_batches((tick_ / 10 + 1) * kStepsPerBeat);
      const int64_t waited = (rank == slow_ ? 45'000 : 200'000) + noise(random_);
      measures->add_steps(kStepsPerBeat);
      measures->add_waited_us(waited);
      measures->add_waited_in_batch_us(30'000);
      measures->add_batch_us(30'000);
      measures->add_cpu_us(kBeatUs - waited);
      measures->add_waiting_us(rank == slow_ ? 0 : 20'000);
      measures->add_running_us(0);
      measures->add_last_slot(1);
      measures->add_batch_slot(1);
    }
    sent_ += 50'000'000;
    measures->set_received_bytes(sent_);
    measures->set_sent_bytes(sent_);
    if (first == 0) {
      measures->add_late_ranks(slow_);
      measures->add_late_steps(kStepsPerBeat);
      measures->add_late_us(150'000);
    }
    Say(first, std::move(message));
  }

  const uint32_t ranks_;
  const uint32_t slow_;
  const uint32_t others_;
  const absl::Time began_ = absl::Now();
  std::mt19937_64 random_{1};
  Metrics metrics_{kVersion, absl::Now()};
  Tenants tenants_;
  JobRegistry jobs_;
  QuotaGate gate_{&tenants_, &jobs_, &SteadyNow};
  OutputRouter outputs_;
  std::unique_ptr<Store> store_ = MakeMemoryStore();
  std::unique_ptr<JobLoops> loops_;
  std::unique_ptr<CallRouter> router_;
  std::unique_ptr<JobViews> views_;
  std::unique_ptr<LiveEvents> events_;
  SignIn sign_in_{
      [](const std::string& token) {
        return token == kToken ? HttpIdentity{HttpAccess::kAdmin, "default", "root", v1::ROOT} : HttpIdentity();
      },
      &SteadyNow};
  std::unique_ptr<HttpEdge> edge_;
  // Of the thread that beats, once it runs.
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  uint64_t tick_ = 0;
  uint64_t sent_ = 0;
  std::thread beats_;
};

int Run(int argc, char** argv) {
  uint32_t ranks = 0;
  uint32_t jobs = 0;
  if (argc < 2 || argc > 3 || !absl::SimpleAtoi(argv[1], &ranks) || ranks < 2 ||
      (argc == 3 && !absl::SimpleAtoi(argv[2], &jobs))) {
    std::cerr << "crowd RANKS [JOBS]: at least 2 ranks\n";
    return 2;
  }
  spdlog::set_level(spdlog::level::off);
  Crowd crowd(ranks, jobs);
  crowd.Gather();
  std::cout << "listening on http://127.0.0.1:" << crowd.port() << "/ token " << kToken << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    absl::string_view rest = line;
    uint32_t rank = 0;
    if (absl::ConsumePrefix(&rest, "lose ") && absl::SimpleAtoi(rest, &rank)) crowd.Lose(rank);
  }
  return 0;
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) { return farandole::Run(argc, argv); }
