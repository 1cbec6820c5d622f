// Runs allreduce between processes as on several hosts, and prints how long it takes: in HostsTransport's own way, and
// by the schedule, in turns. Its output is in docs/decisions/0008-bulk-between-hosts.md. With --namespaces each host is
// in a network namespace of its own (host_transports_bench.cc says how to make them).

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/collectives/choose_schedule.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/core/doorbell.h"
#include "worker/transport/hosts/hosts_transport.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/tcp/socket_set.h"
#include "worker/transport/tcp/tcp_transport.h"

namespace farandole {
namespace {

constexpr int kMostRanks = 64;
constexpr int kBlocks = 6;

struct Settings {
  std::vector<int> slots = {2, 2};
  std::vector<std::string> namespaces;
  std::vector<std::string> ways = {"native", "schedule"};
  std::vector<int64_t> bytes = {4, 65536, 1 << 20, 16 << 20, 64 << 20};
  double seconds = 1;
  bool is_half = false;
  bool encrypts = false;
};

// The memory that all processes share.
struct Board {
  pthread_barrier_t barrier;
  Doorbell bells[kMostRanks];
  char endpoints[kMostRanks][64];
  double seconds[kMostRanks];
};

void* MapShared(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FD_CHECK(memory != MAP_FAILED) << strerror(errno);
  return memory;
}

void EnterNamespace(const std::string& name) {
  const int fd = open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC);
  FD_CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0) << name << ": " << strerror(errno);
  close(fd);
}

double CpuSeconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(used.ru_utime) + absl::DurationFromTimeval(used.ru_stime));
}

// One rank.
class Process {
 public:
  Process(const Settings& settings, Board* board, void* host_memory, int rank)
      : settings_(settings), board_(*board), hosts_(Hosts::WithSizes(settings.slots)), rank_(rank), pool_(256 << 20) {
    const int host = hosts_.HostOf(rank);
    if (!settings.namespaces.empty()) EnterNamespace(settings.namespaces[static_cast<size_t>(host)]);
    auto port = PeerPort::Open(settings.namespaces.empty() ? std::vector<std::string>{"127.0.0.1"}
                                                           : std::vector<std::string>{});
    FD_CHECK(port.ok()) << port.status();
    port_ = *std::move(port);
    auto sockets = SocketSet::Create(&port_->loop(), &bell());
    FD_CHECK(sockets.ok()) << sockets.status();
    sockets_ = *std::move(sockets);
    std::strncpy(board_.endpoints[rank], port_->endpoints()[0].c_str(), sizeof(board_.endpoints[rank]) - 1);
    Await();
    PeerPort::Identity identity;
    identity.epoch = 1;
    identity.secret = "secret";
    identity.encrypts = settings.encrypts;
    identity.rank = rank;
    for (int peer = 0; peer < hosts_.size(); ++peer) {
      identity.endpoints.push_back({board_.endpoints[peer]});
      identity.who.push_back(absl::StrCat("rank ", peer));
    }
    port_->Enter(std::move(identity));
    std::vector<Doorbell*> bells;
    for (int local = 0; local < hosts_.RanksOn(host); ++local)
      bells.push_back(&board_.bells[hosts_.Leader(host) + local]);
    auto shm = std::make_unique<ShmTransport>(host_memory, hosts_.LocalIndex(rank), std::move(bells));
    auto tcp = std::make_unique<TcpTransport>(rank, hosts_.size(), port_.get(), sockets_.get());
    transport_ = std::make_unique<HostsTransport>(hosts_, rank, std::move(shm), std::move(tcp),
                                                  [](int, const std::string& how) { FD_CHECK(false) << how; });
    for (int peer = 0; peer < hosts_.size(); ++peer) ranks_.push_back(peer);
  }

  void Measure() {
    for (const int64_t bytes : settings_.bytes) MeasureSize(bytes);
    Await();
  }

 private:
  Doorbell& bell() { return board_.bells[rank_]; }
  void Await() { pthread_barrier_wait(&board_.barrier); }

  void MeasureSize(int64_t bytes) {
    const DType dtype = settings_.is_half ? DType::kF16 : DType::kF32;
    const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(SizeOf(dtype)));
    std::vector<char> data(static_cast<size_t>(count) * SizeOf(dtype), 0);
    const Fragment fragment = {data.data(), data.data(), count};
    std::vector<std::vector<double>> seconds(settings_.ways.size());
    std::vector<double> cpu(settings_.ways.size(), 0);
    for (const std::string& way : settings_.ways) Allreduce(way, dtype, fragment);
    const double once = Allreduce(settings_.ways[0], dtype, fragment);
    if (rank_ == 0) board_.seconds[0] = once;
    Await();
    const int rounds = std::max(1, static_cast<int>(settings_.seconds / kBlocks / board_.seconds[0]));
    for (int block = 0; block < kBlocks; ++block) {
      for (size_t way = 0; way < settings_.ways.size(); ++way) {
        Await();
        const double before = CpuSeconds();
        for (int i = 0; i < rounds; ++i) seconds[way].push_back(Allreduce(settings_.ways[way], dtype, fragment));
        cpu[way] += CpuSeconds() - before;
      }
    }
    for (size_t way = 0; way < settings_.ways.size(); ++way) Print(settings_.ways[way], bytes, seconds[way], cpu[way]);
  }

  void Print(const std::string& way, int64_t bytes, std::vector<double>& seconds, double cpu) {
    board_.seconds[rank_] = cpu / static_cast<double>(seconds.size());
    Await();
    if (rank_ == 0) {
      double all = 0;
      for (int rank = 0; rank < hosts_.size(); ++rank) all += board_.seconds[rank];
      std::sort(seconds.begin(), seconds.end());
      std::printf("%-10s %10lld B %10.1f us, least %10.1f us, cpu of all ranks %10.1f us\n", way.c_str(),
                  static_cast<long long>(bytes), seconds[seconds.size() / 2] * 1e6, seconds[0] * 1e6,  // NOLINT
                  all * 1e6);
      std::fflush(stdout);
    }
    Await();
  }

  double Allreduce(const std::string& way, DType dtype, const Fragment& fragment) {
    Collective collective;
    collective.sequence = ++sequence_;
    collective.dtype = dtype;
    collective.ranks = ranks_;
    collective.position = rank_;
    collective.count = fragment.count;
    collective.fragments = absl::MakeConstSpan(&fragment, 1);
    const absl::Time start = absl::Now();
    std::unique_ptr<Operation> operation;
    if (way == "native") {
      auto started = transport_->Start(collective);
      FD_CHECK(started.ok()) << started.status();
      operation = *std::move(started);
    } else {
      auto schedule = ChooseSchedule(collective, hosts_);
      FD_CHECK(schedule.ok()) << schedule.status();
      operation = std::make_unique<ScheduleOperation>(collective, *std::move(schedule), *transport_, pool_);
    }
    Drive(*operation);
    return absl::ToDoubleSeconds(absl::Now() - start);
  }

  // As the engine does: the waiting thread drives, yields for 50 us, and sleeps.
  void Drive(Operation& operation) {
    constexpr absl::Duration kYields = absl::Microseconds(50);
    absl::Time last_move = absl::Now();
    for (;;) {
      const bool sleeps = absl::Now() - last_move > kYields;
      const uint32_t ticket = bell().Ticket();
      bell().SetAttention(sleeps ? Attention::kDriverAsleep : Attention::kPolling);
      const absl::StatusOr<bool> complete = operation.Advance();
      FD_CHECK(complete.ok()) << complete.status();
      if (*complete) break;
      if (operation.moved()) {
        last_move = absl::Now();
      } else if (sleeps) {
        sockets_->Rest();
        bell().Sleep(ticket, Attention::kDriverAsleep, absl::Seconds(1));
        last_move = absl::Now();
      } else {
        std::this_thread::yield();
      }
    }
    bell().SetAttention(Attention::kPolling);
  }

  const Settings& settings_;
  Board& board_;
  const Hosts hosts_;
  const int rank_;
  std::vector<int> ranks_;
  BufferPool pool_;
  std::unique_ptr<PeerPort> port_;
  std::unique_ptr<SocketSet> sockets_;
  std::unique_ptr<HostsTransport> transport_;
  uint64_t sequence_ = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("Measures allreduce between several hosts");
  Settings settings;
  app.add_option("--slots", settings.slots, "ranks of each host")->delimiter(',');
  app.add_option("--namespaces", settings.namespaces, "network namespaces, one for each host")->delimiter(',');
  app.add_option("--ways", settings.ways, "native, schedule")->delimiter(',');
  app.add_option("--bytes", settings.bytes, "of the tensor")->delimiter(',');
  app.add_option("--seconds", settings.seconds, "for each size and way");
  app.add_flag("--half", settings.is_half, "float16 instead of float32");
  app.add_flag("--encrypt", settings.encrypts, "what crosses the network");
  CLI11_PARSE(app, argc, argv);
  const Hosts hosts = Hosts::WithSizes(settings.slots);
  auto* board = static_cast<Board*>(MapShared(sizeof(Board)));
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&board->barrier, &shared, static_cast<unsigned>(hosts.size()));
  std::vector<void*> memory;
  for (int host = 0; host < hosts.count(); ++host) memory.push_back(MapShared(ShmLayout::Bytes(hosts.RanksOn(host))));
  std::vector<pid_t> children;
  for (int rank = 0; rank < hosts.size(); ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      Process(settings, board, memory[static_cast<size_t>(hosts.HostOf(rank))], rank).Measure();
      return 0;
    }
    children.push_back(child);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) { return farandole::Main(argc, argv); }
