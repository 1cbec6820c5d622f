// The coordinator's part of the growth page: the real core, and the messages as workers and coordinator send them.
#include <time.h>

#include <map>
#include <random>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "server/job/job.h"
#include "tests/simulation/growth_phase.h"

namespace farandole {
namespace {

constexpr int kRanksPerHost = 8;

class CoordinatorUnderLoad {
 public:
  CoordinatorUnderLoad(int ranks, bool is_elastic)
      : ranks_(ranks),
        is_elastic_(is_elastic),
        streams_(ranks),
        job_("default", "growth", Options(), [](size_t bytes) { return std::string(bytes, 's'); }) {
    std::mt19937_64 random(1);
    for (int rank = 0; rank < ranks; ++rank) {
      const int host = rank / kRanksPerHost;
      v1::Member member;
      member.set_incarnation(absl::StrFormat("%016x%016x", random(), random()));
      member.set_host_id(absl::StrFormat("0b1f8a62-5f0c-4b5e-9d3a-%012x:4026531840:4026531836:1000", host));
      member.set_hostname(absl::StrFormat("node-%04d.cluster.example", host));
      member.set_pid(100'000 + static_cast<int64_t>(random() % 100'000));
      member.add_endpoints(absl::StrFormat("unix-abstract:farandole-%016x%016x", random(), random()));
      member.add_endpoints(
          absl::StrFormat("tcp:10.%d.%d.%d:%d", 1, host / 250, host % 250 + 1, 32'768 + random() % 28'000));
      members_.push_back(std::move(member));
    }
  }

  void Join() {
    for (int rank = 0; rank < ranks_; ++rank) Join(rank, "");
  }
  void Join(int rank, const std::string& predecessor) {
    JoinRequested event{static_cast<CallId>(rank + 1), {}};
    event.request.set_job("growth");
    *event.request.mutable_member() = members_[rank];
    event.request.set_wanted_size(ranks_);
    event.request.set_launch_index(rank);
    event.request.set_protocol_version(1);
    event.request.set_version("1.0");
    event.request.set_join_timeout_ms(600'000);
    event.request.set_stall_warning_ms(60'000);
    if (is_elastic_) {
      event.request.mutable_elastic()->set_min_size(1);
      event.request.mutable_elastic()->set_max_size(ranks_);
      event.request.mutable_elastic()->set_shortage_limit_ms(600'000);
      event.request.set_predecessor(predecessor);
    }
    Take(event, event.request.ByteSizeLong());
  }
  void Open(int first, int end) {
    for (int rank = first; rank < end; ++rank) {
      streams_[rank] = ++last_stream_;
      StreamOpened event{streams_[rank], {}};
      event.hello.set_job("growth");
      event.hello.set_incarnation(members_[rank].incarnation());
      Take(event, event.hello.ByteSizeLong());
    }
  }
  void Negotiate(int names) {
    for (int name = 0; name < names; ++name) {
      v1::WorkerMessage message;
      v1::Ready* ready = message.mutable_ready();
      ready->set_name(absl::StrCat("module.layer", name, ".weight"));
      ready->set_dtype(v1::DTYPE_F32);
      ready->set_reduce_op(v1::REDUCE_OP_SUM);
      ready->add_shape(1024);
      ready->add_shape(4096);
      ready->set_prescale(1);
      ready->set_postscale(1);
      for (int rank = 0; rank < ranks_; ++rank) Say(rank, message);
    }
  }
  // Two ticks: each host's first rank speaks for all.
  void Beat() {
    for (uint64_t beat = 1; beat <= 2; ++beat) {
      now_ += absl::Milliseconds(500);
      for (int first = 0; first < ranks_; first += kRanksPerHost) {
        v1::WorkerMessage message;
        message.mutable_heartbeat()->set_epoch(1);
        for (int rank = first; rank < std::min(ranks_, first + kRanksPerHost); ++rank) {
          v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
          pulse->set_rank(static_cast<uint32_t>(rank));
          pulse->set_beat(beat);
          pulse->set_batches(1000 + beat);
        }
        Say(first, message);
      }
    }
  }
  // Of the last rank, as its neighbour tells.
  void Lose() {
    v1::WorkerMessage message;
    message.mutable_peer_lost()->set_epoch(1);
    message.mutable_peer_lost()->set_rank(ranks_ - 1);
    message.mutable_peer_lost()->set_evidence("its process ended with signal 9");
    Say(ranks_ - 2, message);
  }
  // All but the last rank.
  void JoinAgain() {
    for (int rank = 0; rank < ranks_ - 1; ++rank) {
      const std::string predecessor = members_[rank].incarnation();
      members_[rank].set_incarnation(absl::StrFormat("%016x%016x", 1, rank));
      Join(rank, predecessor);
    }
  }
  void Leave() {
    v1::WorkerMessage message;
    message.mutable_leave()->set_epoch(1);
    for (int rank = 0; rank < ranks_; ++rank) Say(rank, message);
  }

  // The counts since the last call.
  GrowthPhase Cut(const std::string& name) {
    phase_.name = name;
    return std::exchange(phase_, GrowthPhase());
  }

 private:
  static JobOptions Options() {
    JobOptions options;
    options.max_workers = 65'536;
    return options;
  }
  void Say(int rank, const v1::WorkerMessage& message) {
    Take(MessageReceived{streams_[rank], message}, message.ByteSizeLong());
  }
  void Take(const Event& event, size_t bytes) {
    phase_.in.Add(bytes);
    const double begin = CpuMs();
    const Actions actions = job_.Step(event, now_);
    phase_.cpu_ms += CpuMs() - begin;
    size_t batch_bytes = 0;
    for (const StoreRow& row : actions.persist.puts) batch_bytes += row.key.size() + row.value.size();
    FD_CHECK_LE(batch_bytes, kMaxBatchBytes) << "the store takes no more at once";
    phase_.store_bytes += batch_bytes;
    // The same message goes to many.
    std::map<const v1::CoordinatorMessage*, size_t> sizes;
    for (const Output& output : actions.outputs) {
      if (const auto* send = std::get_if<Send>(&output)) {
        const auto [size, is_new] = sizes.try_emplace(send->message.get(), 0);
        if (is_new) size->second = send->message->ByteSizeLong();
        phase_.out.Add(size->second);
      } else if (const auto* reply = std::get_if<Reply>(&output)) {
        FD_CHECK(reply->status.ok()) << reply->status.ToString();
        if (const auto* joined = std::get_if<v1::JoinResponse>(&reply->message)) phase_.out.Add(joined->ByteSizeLong());
      } else if (const auto* close = std::get_if<CloseStream>(&output)) {
        FD_CHECK(close->status.ok() || is_elastic_) << close->status.ToString();
      }
    }
  }

  const int ranks_;
  const bool is_elastic_;
  std::vector<v1::Member> members_;
  std::vector<StreamId> streams_;
  StreamId last_stream_ = 0;
  Job job_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  GrowthPhase phase_;
};

}  // namespace

double CpuMs() {
  struct timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::vector<GrowthPhase> MeasureCoordinator(int ranks, int names) {
  CoordinatorUnderLoad load(ranks, false);
  std::vector<GrowthPhase> phases;
  load.Join();
  phases.push_back(load.Cut("all join"));
  load.Open(0, ranks - 1);
  phases.push_back(load.Cut("all open their streams"));
  load.Open(ranks - 1, ranks);
  phases.push_back(load.Cut("the epoch forms"));
  load.Negotiate(names);
  phases.push_back(load.Cut(absl::StrCat("first step, ", names, " new names")));
  load.Beat();
  phases.push_back(load.Cut("steady, each second"));
  load.Leave();
  phases.push_back(load.Cut("all leave"));
  CoordinatorUnderLoad elastic(ranks, true);
  elastic.Join();
  elastic.Open(0, ranks);
  elastic.Cut("");
  elastic.Lose();
  phases.push_back(elastic.Cut("elastic: one is lost"));
  elastic.JoinAgain();
  phases.push_back(elastic.Cut("elastic: the others join again"));
  elastic.Open(0, ranks - 2);
  phases.push_back(elastic.Cut("elastic: they open their streams"));
  elastic.Open(ranks - 2, ranks - 1);
  phases.push_back(elastic.Cut("elastic: the next epoch forms"));
  return phases;
}

}  // namespace farandole
