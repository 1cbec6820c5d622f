#include "worker/transport/hosts/hosts_transport.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/steady_time.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/collectives/start_collective.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/tcp/tcp_transport.h"
#include "worker/transport/tcp/test_hosts.h"
#include "worker/transport/testing/conformance.h"

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
  // Of a rank that shares memory with those of its host, or with no rank.
  std::unique_ptr<HostsTransport> Make(int rank, bool shares_memory, OnLost on_lost) {
    auto tcp = std::make_unique<TcpTransport>(rank, hosts.size(), &network.port(rank), &network.sockets(rank));
    if (!shares_memory) {
      return std::make_unique<HostsTransport>(Hosts::Apart(hosts.size()), rank, nullptr, std::move(tcp),
                                              std::move(on_lost));
    }
    const int host = hosts.HostOf(rank);
    std::vector<Doorbell*> bells;
    for (int local = 0; local < hosts.RanksOn(host); ++local)
      bells.push_back(&network.bell(hosts.Leader(host) + local));
    auto shm = std::make_unique<ShmTransport>(memory[host], hosts.LocalIndex(rank), std::move(bells));
    return std::make_unique<HostsTransport>(hosts, rank, std::move(shm), std::move(tcp), std::move(on_lost));
  }

  const Hosts hosts;
  TestHosts network;
  std::vector<void*> memory;
};

TransportSet MakeSet(const std::vector<int>& sizes, bool shares_memory) {
  auto ground = std::make_shared<Ground>(Hosts::WithSizes(sizes));
  TransportSet set;
  set.hosts = shares_memory ? ground->hosts : Hosts::Apart(ground->hosts.size());
  for (int rank = 0; rank < ground->hosts.size(); ++rank) {
    set.transports.push_back(ground->Make(rank, shares_memory, [](int, const std::string&) {}));
    set.doorbells.push_back(&ground->network.bell(rank));
  }
  set.rest = [raw = ground.get()](int rank) { raw->network.sockets(rank).Rest(); };
  set.foundation = std::move(ground);
  return set;
}

// Ranks on several hosts, so that the hosts have different numbers of them.
std::vector<int> SizesFor(int ranks) {
  switch (ranks) {
    case 1:
      return {1};
    case 2:
      return {1, 1};
    case 3:
      return {2, 1};
    case 4:
      return {2, 2};
    default:
      return {3, 1, ranks - 4};
  }
}

TransportSet MakeHostsSet(int size) { return MakeSet(SizesFor(size), true); }

TransportSet MakeApartSet(int size) { return MakeSet(SizesFor(size), false); }

INSTANTIATE_TEST_SUITE_P(Hosts, TransportConformanceTest,
                         ::testing::ValuesIn(ConformanceCases({"Hosts", MakeHostsSet})), ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Apart, TransportConformanceTest,
                         ::testing::Values(ConformanceCase{{"Apart", MakeApartSet}, 4}), ConformanceCaseName);

// Passes everything on, but that all collectives run as schedules.
class WithoutOwnWays final : public Transport {
 public:
  explicit WithoutOwnWays(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  absl::string_view name() const override { return transport_->name(); }
  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  void Send(Transfer* transfer) override { transport_->Send(transfer); }
  void Receive(Transfer* transfer) override { transport_->Receive(transfer); }
  absl::StatusOr<bool> Progress() override { return transport_->Progress(); }
  void Abort(absl::Status reason) override { transport_->Abort(std::move(reason)); }

 private:
  const std::unique_ptr<Transport> transport_;
};

// Transports that run schedules, whose results equal those of the native operations to the bit.
TransportSet MakeScheduledSet(int size) {
  TransportSet set = MakeHostsSet(size);
  for (std::unique_ptr<Transport>& transport : set.transports)
    transport = std::make_unique<WithoutOwnWays>(std::move(transport));
  return set;
}

INSTANTIATE_TEST_SUITE_P(Scheduled, TransportConformanceTest,
                         ::testing::Values(ConformanceCase{{"Scheduled", MakeScheduledSet}, 4}), ConformanceCaseName);

// Batches that differ in how their chunks and shares come out, over these hosts.
std::vector<ConformanceBatch> ReductionsOf(const std::vector<int>& sizes) {
  std::vector<ConformanceBatch> batches;
  const std::vector<std::vector<int64_t>> counts = {
      {1}, {16'384}, {16'385}, {100'003}, {70'000, 1, 0, 130'000}, {1'200'007}, {5, 600'000, 5}};
  for (const std::vector<int64_t>& each : counts) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      ConformanceBatch batch;
      batch.dtype = dtype;
      batch.counts = each;
      batch.ranks.resize(static_cast<size_t>(Hosts::WithSizes(sizes).size()));
      std::iota(batch.ranks.begin(), batch.ranks.end(), 0);
      batch.in_place = batches.size() % 2 == 0;
      if (batches.size() % 4 == 3) batch.reduce_op = ReduceOp::kAverage;
      if (batches.size() % 5 == 4) batch.prescale = 0.3;
      if (batches.size() % 3 == 2) batch.joined = {static_cast<int>(batches.size() % batch.ranks.size())};
      batches.push_back(std::move(batch));
    }
  }
  return batches;
}

TEST(HostsTransportTest, ManyShapesOfHostsReduceInTheOrderOfHosts) {
  for (const std::vector<int>& sizes :
       {std::vector<int>{1, 1, 1}, {2, 2, 2}, {1, 3}, {4, 4}, {2, 1, 1, 1, 1, 1, 1, 2}}) {
    TransportSet set = MakeSet(sizes, true);
    ConformanceRun run(set, ReductionsOf(sizes), StartAsEngine(set));
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const std::unique_ptr<ConformanceMemory>& memory : run.memory()) {
      const absl::Status checked = memory->CheckResult();
      EXPECT_TRUE(checked.ok()) << checked << " on " << sizes.size() << " hosts";
    }
  }
}

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
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {0, 1, 2, 3}, 3), "native");
}

TEST(HostsTransportTest, AnAllreduceOnMoreThan8HostsRunsTheSchedule) {
  Ground ground(Hosts::WithSizes(std::vector<int>(9, 1)));
  const auto transport = ground.Make(0, true, nullptr);
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {0, 1, 2, 3, 4, 5, 6, 7}, 0), "native");
  EXPECT_EQ(AlgorithmOf(*transport, ground.hosts, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 0), "ring allreduce");
}

TEST(HostsTransportTest, ARootThatHasJoinedHasNothingToBroadcast) {
  Ground ground(Hosts::WithSizes({1, 1}));
  const auto transport = ground.Make(0, true, nullptr);
  const std::vector<int> ranks = {0, 1};
  Collective collective;
  collective.sequence = 7;
  collective.op = OpType::kBroadcast;
  collective.ranks = ranks;
  collective.count = 5;
  collective.contributes = false;
  const absl::StatusOr<std::unique_ptr<Operation>> started = transport->Start(collective);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ((*started)->Advance().status(),
            absl::InternalError("batch 7: rank 0 is the root of a broadcast but has joined and has no data"));
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
  const absl::Time deadline = SteadyNow() + absl::Seconds(30);
  while (!received.complete && SteadyNow() < deadline) {
    ASSERT_TRUE(first->Progress().ok() && second->Progress().ok());
  }
  ASSERT_TRUE(received.complete);
  Transfer never = {1, &byte, 1};
  first->Receive(&never);
  second.reset();
  while (lost == 0 && SteadyNow() < deadline) ASSERT_TRUE(first->Progress().ok());
  EXPECT_TRUE(absl::StrContains(evidence, "rank 1 (pid 4701 on node-1) ended its connection to rank 0")) << evidence;
  for (int round = 0; round < 3; ++round) EXPECT_FALSE(*first->Progress());
  EXPECT_EQ(lost, 1);
  first->Abort(absl::AbortedError("rank 7 died"));
  EXPECT_FALSE(first->Progress().ok());
}

}  // namespace
}  // namespace farandole
