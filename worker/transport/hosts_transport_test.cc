#include "worker/transport/hosts_transport.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/collectives/start_collective.h"
#include "worker/transport/conformance.h"
#include "worker/transport/shm_transport.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/test_hosts.h"

namespace farandole {
namespace {

using OnLost = HostsTransport::OnLost;

// Shared memory for each host, and the ranks' ports.
struct Ground {
  explicit Ground(const Hosts& its_hosts) : hosts(its_hosts), network(hosts.size()) {
    for (int host = 0; host < hosts.count(); ++host) {
      const size_t bytes = (ShmLayout::Bytes(hosts.RanksOn(host)) + 4095) / 4096 * 4096;
      memory.push_back(std::aligned_alloc(4096, bytes));
      std::memset(memory.back(), 0, bytes);
    }
  }
  ~Ground() {
    for (void* piece : memory) std::free(piece);
  }
  std::unique_ptr<HostsTransport> Make(int rank, bool shares_memory, OnLost on_lost) {
    const int host = hosts.HostOf(rank);
    std::vector<Doorbell*> bells;
    for (int local = 0; local < hosts.RanksOn(host); ++local)
      bells.push_back(&network.bell(hosts.Leader(host) + local));
    std::unique_ptr<Transport> shm;
    if (shares_memory) shm = std::make_unique<ShmTransport>(memory[host], hosts.LocalIndex(rank), std::move(bells));
    auto tcp = std::make_unique<TcpTransport>(rank, hosts.size(), &network.port(rank), &network.sockets(rank));
    return std::make_unique<HostsTransport>(hosts, rank, std::move(shm), std::move(tcp), std::move(on_lost));
  }

  const Hosts hosts;
  TestHosts network;
  std::vector<void*> memory;
};

TransportSet MakeSet(const std::vector<int>& sizes, bool shares_memory) {
  auto ground = std::make_shared<Ground>(Hosts::WithSizes(sizes));
  TransportSet set;
  for (int rank = 0; rank < ground->hosts.size(); ++rank) {
    set.transports.push_back(ground->Make(rank, shares_memory, [](int, const std::string&) {}));
    set.doorbells.push_back(&ground->network.bell(rank));
  }
  set.rest = [raw = ground.get()](int rank) { raw->network.sockets(rank).Rest(); };
  set.foundation = std::move(ground);
  return set;
}

TransportSet MakeHostsSet(int size) {
  switch (size) {
    case 1:
      return MakeSet({1}, true);
    case 2:
      return MakeSet({1, 1}, true);
    case 3:
      return MakeSet({2, 1}, true);
    case 4:
      return MakeSet({2, 2}, true);
    default:
      return MakeSet({3, 1, size - 4}, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, TransportConformanceTest,
                         ::testing::ValuesIn(ConformanceCases({"Hosts", MakeHostsSet})), ConformanceCaseName);

std::string AlgorithmOf(Transport& transport, const Hosts& hosts, std::vector<int> ranks, int position) {
  BufferPool pool(1 << 20);
  std::vector<float> values(1 << 20);
  const Fragment fragment = {values.data(), values.data(), static_cast<int64_t>(values.size())};
  Collective collective;
  collective.sequence = 1;
  collective.ranks = ranks;
  collective.position = position;
  collective.count = fragment.count;
  collective.fragments = absl::MakeConstSpan(&fragment, 1);
  const absl::StatusOr<std::unique_ptr<Operation>> started = StartCollective(collective, hosts, transport, pool);
  if (!started.ok()) return started.status().ToString();
  const auto* scheduled = dynamic_cast<const ScheduleOperation*>(started->get());
  return scheduled == nullptr ? "native" : std::string(scheduled->algorithm());
}

TEST(HostsTransportTest, GroupsOnOneHostRunItsOwnCollectivesWhereMemoryIsShared) {
  Ground ground(Hosts::WithSizes({2, 2}));
  const auto transport = ground.Make(3, true, nullptr);
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {2, 3}, 1), "native");
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {3}, 0), "native");
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {0, 1, 2, 3}, 3), "hierarchical ring allreduce");
  // Where it is not, every rank is alone.
  const auto alone = ground.Make(3, false, nullptr);
  EXPECT_EQ(AlgorithmOf(*alone, Hosts::Apart(4), {2, 3}, 1), "ring allreduce");
}

TEST(HostsTransportTest, ALostConnectionIsReportedOnceAndEndsNothingByItself) {
  Ground ground(Hosts::WithSizes({1, 1}));
  int lost = 0;
  std::string evidence;
  auto first = ground.Make(0, true, [&](int peer, const std::string& how) {
    ++lost;
    EXPECT_EQ(peer, 1);
    evidence = how;
  });
  auto second = ground.Make(1, true, nullptr);
  char byte = 'x';
  Transfer sent = {0, &byte, 1};
  Transfer received = {1, &byte, 1};
  second->Send(&sent);
  first->Receive(&received);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!received.complete && absl::Now() < deadline) {
    ASSERT_TRUE(first->Progress().ok() && second->Progress().ok());
  }
  ASSERT_TRUE(received.complete);
  Transfer never = {1, &byte, 1};
  first->Receive(&never);
  second.reset();
  while (lost == 0 && absl::Now() < deadline) ASSERT_TRUE(first->Progress().ok());
  EXPECT_TRUE(absl::StrContains(evidence, "rank 1 (pid 4701 on node-1) ended its connection to rank 0")) << evidence;
  for (int round = 0; round < 3; ++round) EXPECT_FALSE(*first->Progress());
  EXPECT_EQ(lost, 1);
  first->Abort(absl::AbortedError("rank 7 died"));
  EXPECT_FALSE(first->Progress().ok());
}

}  // namespace
}  // namespace farandole
