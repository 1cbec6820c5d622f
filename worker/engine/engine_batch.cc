// The part of Engine that runs batches, and that ends.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/engine.h"
#include "worker/engine/running_batch.h"

namespace farandole {
namespace {

// Neighbours in memory, as tensors in an arena are, become one.
void AddFragment(const Fragment& fragment, int64_t element_bytes, absl::InlinedVector<Fragment, 2>* fragments) {
  if (fragment.count == 0) return;
  if (!fragments->empty()) {
    Fragment& last = fragments->back();
    const int64_t bytes = last.count * element_bytes;
    const bool outputs_follow = last.output == nullptr ? fragment.output == nullptr
                                                       : static_cast<char*>(last.output) + bytes == fragment.output;
    if (outputs_follow && static_cast<const char*>(last.input) + bytes == fragment.input) {
      last.count += fragment.count;
      return;
    }
  }
  fragments->push_back(fragment);
}

}  // namespace

void Engine::OnBatch(const Entry& entry) {
  RunningBatch& running = *running_;
  absl::StatusOr<std::vector<int>> ranks = table_.RanksOf(entry.group);
  if (!ranks.ok()) return;  // a group of others that was removed here already
  auto at = std::lower_bound(ranks->begin(), ranks->end(), options_.rank);
  if (at == ranks->end() || *at != options_.rank) return;
  const int position = static_cast<int>(at - ranks->begin());
  running.ranks = *std::move(ranks);
  running.counts.assign(entry.counts.begin(), entry.counts.end());
  running.fragments.clear();
  running.exchanges_rows = false;
  running.started_ns = MonotonicNs();
  running.collective = Collective();
  running.collective.group = entry.group;
  running.collective.ranks = running.ranks;
  running.collective.position = position;
  running.collective.counts = running.counts;
  meter_.BeginBatch(running.started_ns, entry.items.empty() ? 0 : entry.items[0].slot);
  table_.Take(entry, &running.submissions);
  is_running_.store(true);
  absl::Status started = StartBatch(entry);
  if (!started.ok()) {
    Abort(started);
  } else if (running.operation == nullptr) {
    FinishBatch(absl::OkStatus());
  }
}

absl::StatusOr<bool> Engine::JoinsIn(const Entry& entry) const {
  const auto& submissions = running_->submissions;
  const auto missing = std::find(submissions.begin(), submissions.end(), nullptr);
  if (missing == submissions.end()) return false;
  const bool misses_all = std::all_of(submissions.begin(), submissions.end(), [](auto* one) { return one == nullptr; });
  if (misses_all && table_.HasJoined()) return true;
  return absl::InternalError(absl::StrCat("the order log runs slot ", entry.items[missing - submissions.begin()].slot,
                                          ", in which ", options_.who[options_.rank], " has no submission"));
}

// Leaves `operation` empty where there is nothing to move.
absl::Status Engine::StartBatch(const Entry& entry) {
  RunningBatch& running = *running_;
  Collective& collective = running.collective;
  collective.sequence = entry.sequence;
  collective.op = entry.op;
  collective.dtype = entry.dtype;
  collective.reduce_op = entry.reduce_op;
  collective.prescale = entry.prescale;
  collective.postscale = entry.postscale;
  collective.root = entry.root;
  collective.arena = entry.arena;
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(entry.dtype));
  const absl::StatusOr<bool> joins = JoinsIn(entry);
  if (!joins.ok()) return joins.status();
  const OpTraits& traits = TraitsOf(entry.op);
  if (traits.counts == OpTraits::Counts::kExchanged) return StartRowExchange();
  collective.contributes = !*joins;
  if (absl::Status prepared = PrepareGpuBatch(entry); !prepared.ok()) return prepared;
  if (traits.has_root && traits.has_own_rows) return StartRowsOfRoot(entry);
  if (entry.op == OpType::kAllgather && (entry.flags & kRowsAreEmpty) == 0)
    collective.count = std::accumulate(running.counts.begin(), running.counts.end(), int64_t{0});
  for (size_t item = 0; item < entry.items.size(); ++item) {
    Submission* submission = running.submissions[item];
    if (entry.op == OpType::kAllgather) {
      if (submission != nullptr) AddGathered(entry, submission);
      break;
    }
    collective.count += entry.items[item].count;
    if (submission == nullptr) continue;
    bytes_.fetch_add(submission->bytes());
    if (entry.op == OpType::kReducescatter) continue;
    // Broadcasts of any type travel as bytes.
    const int64_t factor = entry.op == OpType::kBroadcast ? static_cast<int64_t>(SizeOf(submission->dtype)) : 1;
    for (const Fragment& fragment : submission->fragments) {
      const Fragment part = {fragment.input, fragment.output, fragment.count * factor};
      // CUDA does not copy across the border between two allocations, even if their addresses are adjacent.
      if (submission->gpu != nullptr) {
        running.fragments.push_back(part);
      } else {
        AddFragment(part, element_bytes, &running.fragments);
      }
    }
  }
  if (entry.op == OpType::kReducescatter && !*joins) AddByPosition(element_bytes);
  collective.fragments = running.fragments;
  if (collective.count == 0) return absl::OkStatus();
  if (collective.arena != 0) arena_bytes_.fetch_add(collective.count * element_bytes);
  return StartOperation();
}

// Adds the input and the output of an allgather's only submission.
void Engine::AddGathered(const Entry& entry, Submission* submission) {
  RunningBatch& running = *running_;
  bytes_.fetch_add(submission->bytes());
  const int64_t row = (entry.flags & kRowsAreEmpty) != 0 ? 1 : submission->row_elements();
  for (int64_t count : running.counts) submission->rows_by_position.push_back(count / row);
  submission->result_bytes = running.collective.count * static_cast<int64_t>(SizeOf(entry.dtype));
  char* const result = AllocateResult(submission);
  const void* input = submission->fragments.empty() ? nullptr : submission->fragments[0].input;
  running.fragments.push_back({input, result, submission->count});
}

char* Engine::AllocateResult(Submission* submission) {
  if (submission->gpu == nullptr) {
    submission->result.reset(new char[submission->result_bytes]);
    return submission->result.get();
  }
  // There the operation does it, in its stream.
  running_->gpu_batch.result_bytes = static_cast<size_t>(submission->result_bytes);
  return nullptr;
}

// Nothing where the tensors are the host's.
absl::Status Engine::PrepareGpuBatch(const Entry& entry) {
  if ((entry.flags & kOnGpus) == 0) return absl::OkStatus();
  RunningBatch& running = *running_;
  running.gpu_batch = GpuBatch();
  running.gpu_batch.is_fused = entry.items.size() > 1;
  running.gpu_batch.is_captured = (entry.flags & kIsCaptured) != 0;
  running.collective.gpu_batch = &running.gpu_batch;
  for (const Submission* submission : running.submissions) {
    if (submission == nullptr) continue;
    running.gpu_batch.gpu = submission->gpu;
    running.gpu_batch.ready.push_back(submission->ready);
    if (running.gpu_batch.label.empty()) running.gpu_batch.label = absl::StrCat("'", submission->name, "'");
  }
  const size_t others = running.gpu_batch.ready.size() - std::min<size_t>(running.gpu_batch.ready.size(), 1);
  if (others > 0) absl::StrAppend(&running.gpu_batch.label, " and ", others, others == 1 ? " other" : " others");
  if (running.gpu_batch.is_captured && running.gpu_batch.gpu == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.who[options_.rank], " has joined, while others capture a collective in a CUDA graph: it ",
                     "would be missing whenever the graph runs"));
  }
  return absl::OkStatus();
}

absl::Status Engine::StartOperation() {
  absl::StatusOr<std::unique_ptr<Operation>> operation = start_(running_->collective);
  if (!operation.ok()) return operation.status();
  running_->operation = *std::move(operation);
  return absl::OkStatus();
}

absl::Status Engine::StartRowExchange() {
  RunningBatch& running = *running_;
  const size_t size = running.ranks.size();
  running.exchanges_rows = true;
  const Submission* submission = running.submissions[0];
  running.sent_rows.assign(size, 0);
  if (submission != nullptr) {
    bytes_.fetch_add(submission->bytes());
    running.sent_rows.assign(submission->splits.begin(), submission->splits.end());
  }
  running.received_rows.assign(size, 0);
  running.counts.assign(size, 1);
  running.sent_counts.assign(size, 1);
  const int64_t count = static_cast<int64_t>(size);
  running.fragments.push_back({running.sent_rows.data(), running.received_rows.data(), count});
  running.collective.dtype = DType::kI64;
  running.collective.count = count;
  running.collective.counts = running.counts;
  running.collective.sent_counts = running.sent_counts;
  running.collective.fragments = running.fragments;
  return StartOperation();
}

absl::Status Engine::StartRows(const Entry& entry) {
  RunningBatch& running = *running_;
  running.exchanges_rows = false;
  running.operation.reset();
  running.fragments.clear();
  const int64_t row = entry.items[0].count;
  for (size_t position = 0; position < running.ranks.size(); ++position) {
    running.sent_counts[position] = running.sent_rows[position] * row;
    running.counts[position] = running.received_rows[position] * row;
  }
  Submission* submission = running.submissions[0];
  if (absl::Status prepared = PrepareGpuBatch(entry); !prepared.ok()) return prepared;
  running.collective.contributes = submission != nullptr;
  if (submission != nullptr) submission->rows_by_position = running.received_rows;
  return MoveRows(entry);
}

absl::Status Engine::StartRowsOfRoot(const Entry& entry) {
  RunningBatch& running = *running_;
  const bool gathers = TraitsOf(entry.op).rows == OpTraits::Rows::kGathers;
  const int position = running.collective.position;
  std::vector<int64_t>& at_root = gathers ? running.counts : running.sent_counts;
  std::vector<int64_t>& at_each = gathers ? running.sent_counts : running.counts;
  at_root.assign(running.ranks.size(), 0);
  at_each.assign(running.ranks.size(), 0);
  if (position == entry.root) at_root.assign(entry.counts.begin(), entry.counts.end());
  at_each[entry.root] = entry.counts[position];
  const bool are_empty = (entry.flags & kRowsAreEmpty) != 0;
  if (Submission* submission = running.submissions[0]; submission != nullptr) {
    const int64_t row = are_empty ? 1 : submission->row_elements();
    for (const int64_t count : running.counts) submission->rows_by_position.push_back(count / row);
  }
  if (are_empty) {
    at_root.assign(running.ranks.size(), 0);
    at_each.assign(running.ranks.size(), 0);
  }
  return MoveRows(entry);
}

// By an alltoall of `sent_counts` and `counts`.
absl::Status Engine::MoveRows(const Entry& entry) {
  RunningBatch& running = *running_;
  const int64_t sent = std::accumulate(running.sent_counts.begin(), running.sent_counts.end(), int64_t{0});
  const int64_t received = std::accumulate(running.counts.begin(), running.counts.end(), int64_t{0});
  // A rank that has joined receives the others' rows, and drops them.
  Submission* submission = running.submissions[0];
  if (submission != nullptr) {
    submission->result_bytes = received * static_cast<int64_t>(SizeOf(entry.dtype));
    char* const result = AllocateResult(submission);
    const void* input = submission->fragments.empty() ? nullptr : submission->fragments[0].input;
    running.fragments.push_back({input, result, sent});
  }
  running.collective.op = OpType::kAlltoall;
  running.collective.dtype = entry.dtype;
  running.collective.count = received;
  running.collective.counts = running.counts;
  running.collective.sent_counts = running.sent_counts;
  running.collective.fragments = running.fragments;
  // NCCL wants all ranks when they connect.
  if (sent == 0 && received == 0 && running.collective.gpu_batch == nullptr) return absl::OkStatus();
  return StartOperation();
}

// Adds all submissions' rows of position 0, then of position 1, ...
void Engine::AddByPosition(int64_t element_bytes) {
  RunningBatch& running = *running_;
  for (size_t position = 0; position < running.ranks.size(); ++position) {
    for (const Submission* submission : running.submissions) {
      if (!submission->fragments.empty())
        AddFragment(submission->fragments[position], element_bytes, &running.fragments);
    }
  }
}

void Engine::AdvanceRunning() {
  absl::StatusOr<bool> complete = running_->operation->Advance();
  if (!complete.ok()) {
    // The engine's own reason, if there is one, says more than the transport's.
    Abort(complete.status());
    return;
  }
  if (!*complete) return;
  if (running_->exchanges_rows) {
    const absl::Status started = StartRows(entry_);
    if (!started.ok()) return Abort(started);
    if (running_->operation != nullptr) return;
  }
  FinishBatch(absl::OkStatus());
}

void Engine::FinishBatch(const absl::Status& status) {
  RunningBatch& running = *running_;
  running.operation.reset();
  if (running.collective.gpu_batch != nullptr) {
    for (Submission* submission : running.submissions) {
      if (submission == nullptr) continue;
      submission->done = running.gpu_batch.done;
      submission->gpu_result = std::move(running.gpu_batch.result);
    }
  }
  batches_.fetch_add(1);
  meter_.EndBatch(running.started_ns, MonotonicNs());
  if (options_.rank == 0) --outstanding_batches_;
  is_running_.store(false);
  table_.Complete(running.submissions, status);
}

void Engine::FailAll() {
  // A transport with threads of its own has let go of the bytes when it has said that it failed.
  if (is_running_.load() && running_->operation != nullptr) running_->operation->Advance().status().IgnoreError();
  if (is_running_.load()) FinishBatch(table_.ended());
  failed_all_.store(true);
  table_.Notify();
}

void Engine::Abort(const absl::Status& reason) {
  if (is_ending_.exchange(true)) return;
  // Before a waiting thread sees it, and ends the process. A rank that shuts down has left before, or its peers see its
  // end.
  if (!stopping_.load()) channel_->StateEnd(reason);
  table_.End(reason);
  stop_transport_(reason);
  aborted_.store(true);
  bell_.RingAll();
}

Engine::Counters Engine::counters() const {
  const RankRecord& record = meter_.record();
  return {batches_.load(), bytes_.load(), arena_bytes_.load(),
          static_cast<uint64_t>(record.batch_ns.load(std::memory_order_relaxed)),
          static_cast<uint64_t>(record.waited_ns.load(std::memory_order_relaxed))};
}

}  // namespace farandole
