// Moves bytes between two processes as two hosts would, and prints how long it takes: over TcpTransport, as it is and
// encrypted, and GlooTransport, and over plain blocking sockets, one or several. With --namespaces each process is in a
// network namespace of its own, for instance
//
//   ip netns add fa; ip netns add fb; ip link add va netns fa type veth peer name vb netns fb
//   ip -n fa addr add 10.77.0.1/24 dev va; ip -n fb addr add 10.77.0.2/24 dev vb
//   ip -n fa link set va up; ip -n fb link set vb up
//   ip netns exec fa tc qdisc add dev va root tbf rate 10gbit burst 4mb latency 50ms    (and in fb)

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/core/doorbell.h"
#include "worker/transport/gloo/gloo_transport.h"
#include "worker/transport/tcp/interface_address.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/tcp/socket_set.h"
#include "worker/transport/tcp/tcp_transport.h"

namespace farandole {
namespace {

constexpr size_t kBulkBytes = 64 << 20;
// The name of TcpTransport where it encrypts.
constexpr char kEncrypted[] = "tcp-encrypted";

// One of the two processes, and a pipe each way to the other.
struct Process {
  int rank = 0;
  int from = -1;
  int to = -1;
};

// The measured call: moves `out` bytes to the peer and `in` bytes from it, and comes back when both are done.
using Move = std::function<void(char* out, size_t out_bytes, char* in, size_t in_bytes)>;

void Tell(const Process& process, std::string text) {
  text.resize(256);
  FD_CHECK_EQ(write(process.to, text.data(), text.size()), 256);
}

std::string Hear(const Process& process) {
  std::string text(256, '\0');
  FD_CHECK_EQ(read(process.from, text.data(), text.size()), 256);
  return text.c_str();
}

double CpuSeconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(used.ru_utime) + absl::DurationFromTimeval(used.ru_stime));
}

void Print(const Process& process, const std::string& name, std::vector<double> seconds, double bytes, double cpu) {
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double rounds = static_cast<double>(seconds.size());
  if (process.rank != 0) return;
  std::printf("%-28s %10.1f us %8.3f GB/s  cpu %.2f s/GB\n", name.c_str(), median * 1e6, bytes / median / 1e9,
              cpu / rounds / bytes * 1e9);
}

void PingPong(const Process& process, const std::string& name, const Move& move, size_t bytes, int rounds) {
  std::vector<char> buffer(bytes, 'x');
  std::vector<double> seconds;
  const double cpu = CpuSeconds();
  for (int i = 0; i < rounds; ++i) {
    const absl::Time start = absl::Now();
    if (process.rank == 0) {
      move(buffer.data(), bytes, nullptr, 0);
      move(nullptr, 0, buffer.data(), bytes);
    } else {
      move(nullptr, 0, buffer.data(), bytes);
      move(buffer.data(), bytes, nullptr, 0);
    }
    if (i >= rounds / 10) seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start) / 2);
  }
  Print(process, absl::StrCat(name, " ", bytes, " B one way"), seconds, static_cast<double>(bytes), CpuSeconds() - cpu);
}

void Bulk(const Process& process, const std::string& name, const Move& move, bool both_ways, int rounds) {
  std::vector<char> out(kBulkBytes, 'x');
  std::vector<char> in(kBulkBytes, 'y');
  std::vector<double> seconds;
  char byte = 'b';
  const double cpu = CpuSeconds();
  for (int i = 0; i < rounds; ++i) {
    const absl::Time start = absl::Now();
    const size_t to_peer = both_ways || process.rank == 0 ? kBulkBytes : 0;
    const size_t from_peer = both_ways || process.rank == 1 ? kBulkBytes : 0;
    move(out.data(), to_peer, in.data(), from_peer);
    // The receiver says that it has all.
    move(&byte, process.rank == 1 ? 1 : 0, &byte, process.rank == 0 ? 1 : 0);
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  Print(process, absl::StrCat(name, both_ways ? " 64 MiB both ways" : " 64 MiB one way"), seconds, kBulkBytes,
        CpuSeconds() - cpu);
}

void MeasureAll(const Process& process, const std::string& name, const Move& move, int bulk_rounds) {
  for (const size_t bytes : {4, 4096, 65536}) PingPong(process, name, move, bytes, 2000);
  Bulk(process, name, move, false, bulk_rounds);
  Bulk(process, name, move, true, bulk_rounds);
}

// As the engine does: the waiting thread drives, yields for 50 us, and sleeps.
void Drive(Transport& transport, SocketSet& sockets, Doorbell& bell, absl::Span<Transfer> transfers) {
  constexpr absl::Duration kYields = absl::Microseconds(50);
  absl::Time last_move = absl::Now();
  while (!std::all_of(transfers.begin(), transfers.end(), [](const Transfer& each) { return each.complete; })) {
    const bool sleeps = absl::Now() - last_move > kYields;
    const uint32_t ticket = bell.Ticket();
    bell.SetAttention(sleeps ? Attention::kDriverAsleep : Attention::kPolling);
    const absl::StatusOr<bool> moved = transport.Progress();
    FD_CHECK(moved.ok()) << moved.status();
    if (*moved) {
      last_move = absl::Now();
    } else if (sleeps) {
      sockets.Rest();
      bell.Sleep(ticket, Attention::kDriverAsleep, absl::Seconds(1));
      last_move = absl::Now();
    } else {
      std::this_thread::yield();
    }
  }
  bell.SetAttention(Attention::kPolling);
}

Move Over(Transport& transport, SocketSet& sockets, Doorbell& bell) {
  const int peer = 1 - transport.rank();
  return [&, peer](char* out, size_t out_bytes, char* in, size_t in_bytes) {
    std::vector<Transfer> transfers;
    transfers.reserve(2);
    if (out_bytes > 0) {
      transfers.push_back({peer, out, out_bytes});
      transport.Send(&transfers.back());
    }
    if (in_bytes > 0) {
      transfers.push_back({peer, in, in_bytes});
      transport.Receive(&transfers.back());
    }
    Drive(transport, sockets, bell, absl::MakeSpan(transfers));
  };
}

void MeasureTransport(const Process& process, const std::string& name, const std::vector<std::string>& interfaces,
                      int bulk_rounds) {
  Doorbell bell{};
  auto port = PeerPort::Open(interfaces);
  FD_CHECK(port.ok()) << port.status();
  auto sockets = SocketSet::Create(&(*port)->loop(), &bell);
  FD_CHECK(sockets.ok()) << sockets.status();
  PeerPort::Identity identity;
  identity.epoch = 1;
  identity.secret = "secret";
  identity.encrypts = name == kEncrypted;
  identity.rank = process.rank;
  Tell(process, (*port)->endpoints()[0]);
  identity.endpoints = {{Hear(process)}, {}};
  if (process.rank == 0) std::swap(identity.endpoints[0], identity.endpoints[1]);
  identity.who = {"rank 0", "rank 1"};
  (*port)->Enter(std::move(identity));
  std::unique_ptr<Transport> transport;
  if (name == "gloo") {
    transport = std::make_unique<GlooTransport>(process.rank, 2, port->get(), &bell);
  } else {
    transport = std::make_unique<TcpTransport>(process.rank, 2, port->get(), sockets->get());
  }
  MeasureAll(process, name, Over(*transport, **sockets, bell), bulk_rounds);
  // Neither ends before the other is done.
  Tell(process, "done");
  Hear(process);
}

void MoveAll(int fd, char* data, size_t bytes, bool out) {
  while (bytes > 0) {
    const ssize_t moved = out ? send(fd, data, bytes, MSG_NOSIGNAL) : recv(fd, data, bytes, 0);
    FD_CHECK(moved > 0) << strerror(errno);
    data += moved;
    bytes -= static_cast<size_t>(moved);
  }
}

// Rank 1 listens.
std::vector<int> RawConnections(const Process& process, const std::vector<std::string>& interfaces, int streams) {
  const auto all = ListInterfaceAddresses();
  FD_CHECK(all.ok()) << all.status();
  const auto chosen = ChooseAddresses(*all, interfaces);
  FD_CHECK(chosen.ok() && !chosen->empty()) << chosen.status();
  SocketAddress address = (*chosen)[0].address;
  std::vector<int> fds;
  const int listener = process.rank == 1 ? socket(address.storage.ss_family, SOCK_STREAM, 0) : -1;
  if (process.rank == 1) {
    FD_CHECK_EQ(bind(listener, address.get(), address.bytes), 0);
    FD_CHECK_EQ(listen(listener, streams), 0);
    getsockname(listener, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes);
    Tell(process, address.Endpoint());
  } else {
    address = *ParseEndpoint(Hear(process));
  }
  for (int i = 0; i < streams; ++i) {
    fds.push_back(process.rank == 1 ? accept(listener, nullptr, nullptr)
                                    : socket(address.storage.ss_family, SOCK_STREAM, 0));
    if (process.rank == 0) FD_CHECK_EQ(connect(fds.back(), address.get(), address.bytes), 0);
    const int on = 1;
    setsockopt(fds.back(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (listener >= 0) close(listener);
  return fds;
}

// A thread for each stream and direction, the caller's among them.
void MeasureRaw(const Process& process, const std::vector<std::string>& interfaces, int streams, int bulk_rounds) {
  const std::vector<int> fds = RawConnections(process, interfaces, streams);
  const Move move = [&fds](char* out, size_t out_bytes, char* in, size_t in_bytes) {
    std::vector<std::function<void()>> works;
    for (size_t i = 0; i < fds.size(); ++i) {
      const auto add = [&](char* data, size_t bytes, bool is_out) {
        const size_t from = bytes * i / fds.size();
        const size_t to = bytes * (i + 1) / fds.size();
        if (from < to)
          works.push_back([fd = fds[i], data, from, to, is_out] { MoveAll(fd, data + from, to - from, is_out); });
      };
      add(out, out_bytes, true);
      add(in, in_bytes, false);
    }
    std::vector<std::thread> threads;
    for (size_t i = 1; i < works.size(); ++i) threads.emplace_back(works[i]);
    if (!works.empty()) works[0]();
    for (std::thread& thread : threads) thread.join();
  };
  MeasureAll(process, absl::StrCat("raw x", streams), move, bulk_rounds);
  for (const int fd : fds) close(fd);
}

void EnterNamespace(const std::string& name) {
  const int fd = open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC);
  FD_CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0) << name << ": " << strerror(errno);
  close(fd);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures transports between two processes as between two hosts");
  std::vector<std::string> namespaces;
  std::vector<std::string> interfaces;
  std::vector<int> streams = {1, 2, 4};
  std::vector<std::string> transports = {"tcp", kEncrypted, "gloo"};
  int bulk_rounds = 9;
  app.add_option("--namespaces", namespaces, "two network namespaces, one for each process")->expected(2);
  app.add_option("--interfaces", interfaces, "as FARANDOLE_NETWORK_INTERFACES");
  app.add_option("--streams", streams, "of the plain sockets; 0: none");
  app.add_option("--transports", transports, "which of them to measure, in turns")
      ->check(CLI::IsMember({"tcp", kEncrypted, "gloo"}));
  app.add_option("--bulk-rounds", bulk_rounds, "repetitions of 64 MiB");
  CLI11_PARSE(app, argc, argv);
  int up[2];
  int down[2];
  FD_CHECK(pipe2(up, O_CLOEXEC) == 0 && pipe2(down, O_CLOEXEC) == 0) << strerror(errno);
  const pid_t child = fork();
  const Process process = child == 0 ? Process{1, down[0], up[1]} : Process{0, up[0], down[1]};
  if (!namespaces.empty()) EnterNamespace(namespaces[static_cast<size_t>(process.rank)]);
  streams.erase(std::remove(streams.begin(), streams.end(), 0), streams.end());
  for (const int each : streams) MeasureRaw(process, interfaces, each, bulk_rounds);
  for (const std::string& each : transports) MeasureTransport(process, each, interfaces, bulk_rounds);
  std::fflush(stdout);
  if (child != 0) waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) { return farandole::Main(argc, argv); }
