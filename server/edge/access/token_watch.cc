#include "server/edge/access/token_watch.h"

#include <future>
#include <utility>
#include <vector>

#include "base/steady_time.h"
#include "farandole/v1/store.pb.h"
#include "server/admin/token_mint.h"
#include "server/store/store.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(200);
constexpr absl::Duration kBetweenExpiries = absl::Milliseconds(400);
constexpr absl::Duration kBetweenUses = absl::Seconds(10);

}  // namespace

TokenWatch::TokenWatch(OutputRouter* output_router, TokenTable* tokens, AnswerLedger* ledger)
    : output_router_(output_router), tokens_(tokens), ledger_(ledger), thread_([this] { Run(); }) {}

TokenWatch::~TokenWatch() {
  stop_.Notify();
  thread_.join();
  std::promise<void> kept;
  KeepUses();
  // Behind the uses.
  ledger_->Commit(StoreBatch(), [&](const absl::Status&) { kept.set_value(); });
  kept.get_future().wait();
}

void TokenWatch::Run() {
  uint64_t seen = tokens_->revision();
  absl::Time checked = SteadyNow();
  absl::Time kept = SteadyNow();
  while (!stop_.WaitFor(kBetweenLooks)) {
    const absl::Time now = SteadyNow();
    const uint64_t revision = tokens_->revision();
    if (revision != seen || now >= checked + kBetweenExpiries) {
      seen = revision;
      checked = now;
      output_router_->streams().CheckStanding();
    }
    if (now < kept + kBetweenUses) continue;
    kept = now;
    KeepUses();
  }
}

void TokenWatch::KeepUses() {
  const std::vector<TokenTable::Use> uses = tokens_->TakeUses();
  StoreBatch batch;
  const auto write = [&] {
    ledger_->Commit(std::exchange(batch, StoreBatch()), [](const absl::Status& status) {
      if (!status.ok()) spdlog::warn("the last use of some tokens is not kept: {}", std::string(status.message()));
    });
  };
  for (const TokenTable::Use& use : uses) {
    batch.puts.push_back({UseRowKey(use.tenant, use.id), use.record.SerializeAsString()});
    if (batch.puts.size() == kMaxBatchOperations) write();
  }
  if (!batch.empty()) write();
}

}  // namespace farandole
