#include "worker/transport/testing/conformance_run.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "worker/collectives/start_collective.h"

namespace farandole {
namespace {

// Much longer than any batch takes, also under a sanitizer on a loaded machine.
constexpr absl::Duration kLimit = absl::Seconds(30);
constexpr size_t kPoolBytes = 64 << 20;

}  // namespace

StartOperation StartAsEngine(const TransportSet& set) {
  const Hosts hosts = set.hosts.size() > 0 ? set.hosts : Hosts::WithSizes({static_cast<int>(set.transports.size())});
  return [hosts](Transport& transport, const Collective& collective, BufferPool& pool) {
    return StartCollective(collective, hosts, transport, pool);
  };
}

absl::Status Drive(Operation& operation, const TransportSet& set, int rank, int most_yields) {
  Doorbell& bell = *set.doorbells[static_cast<size_t>(rank)];
  const absl::Time deadline = SteadyNow() + kLimit;
  int idle = 0;
  while (SteadyNow() < deadline) {
    const uint32_t ticket = bell.Ticket();
    const bool sleeps = idle >= most_yields;
    bell.SetAttention(sleeps ? Attention::kDriverAsleep : Attention::kPolling);
    const absl::StatusOr<bool> complete = operation.Advance();
    if (!complete.ok() || *complete) {
      bell.SetAttention(Attention::kPolling);
      return complete.status();
    }
    if (operation.moved()) {
      idle = 0;
    } else if (!sleeps) {
      ++idle;
      std::this_thread::yield();
    } else {
      if (set.rest) set.rest(rank);
      bell.Sleep(ticket, Attention::kDriverAsleep, deadline - SteadyNow());
    }
  }
  bell.SetAttention(Attention::kPolling);
  return absl::DeadlineExceededError(absl::StrCat("the operation was not complete after ", absl::FormatDuration(kLimit),
                                                  idle < most_yields ? "" : ", and nobody rang any more"));
}

void AbortAll(TransportSet& set, const absl::Status& reason) {
  for (const std::unique_ptr<Transport>& transport : set.transports) transport->Abort(reason);
  for (Doorbell* doorbell : set.doorbells) doorbell->RingAll();
}

ConformanceRun::ConformanceRun(TransportSet& set, std::vector<ConformanceBatch> batches, StartOperation start)
    : set_(set), batches_(std::move(batches)), start_(std::move(start)), begun_(batches_.size()) {
  for (size_t i = 0; i < batches_.size(); ++i) {
    std::vector<int> on_hosts;
    if (set.hosts.count() > 1) on_hosts = set.hosts.Shape(batches_[i].ranks);
    memory_.push_back(std::make_unique<ConformanceMemory>(batches_[i], i + 1, std::move(on_hosts)));
  }
}

absl::Status ConformanceRun::Run() {
  std::vector<absl::Status> results(set_.transports.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([this, rank, &results] { results[rank] = RunRank(static_cast<int>(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

absl::Status ConformanceRun::RunRank(int rank) {
  BufferPool pool(kPoolBytes);
  for (size_t i = 0; i < batches_.size(); ++i) {
    const absl::Status status = RunBatch(rank, i, pool);
    if (status.ok()) continue;
    const absl::Status named(status.code(), absl::StrCat(std::string(status.message()), " (rank ", rank, ", batch ", i,
                                                         ": ", batches_[i].ToString(), ")"));
    AbortAll(set_, named);
    return named;
  }
  return absl::OkStatus();
}

absl::Status ConformanceRun::RunBatch(int rank, size_t index, BufferPool& pool) {
  const std::vector<int>& ranks = batches_[index].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return absl::OkStatus();
  const Collective collective = memory_[index]->CollectiveOf(static_cast<int>(found - ranks.begin()));
  begun_[index].fetch_add(1);
  absl::StatusOr<std::unique_ptr<Operation>> operation = start_(*set_.transports[rank], collective, pool);
  if (!operation.ok()) return operation.status();
  // Every second time the rank sleeps at once, so that a forgotten ring shows.
  const int most_yields = (index + rank) % 2 == 0 ? 0 : 20;
  absl::Status driven = Drive(**operation, set_, rank, most_yields);
  if (!driven.ok()) return driven;
  if (collective.op == OpType::kBarrier && begun_[index].load() != ranks.size()) {
    return absl::InternalError(
        absl::StrCat("left the barrier to which ", begun_[index].load(), " of ", ranks.size(), " ranks have come"));
  }
  return absl::OkStatus();
}

}  // namespace farandole
