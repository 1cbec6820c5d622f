#include "worker/engine/batch_runner.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/core/clock.h"

namespace farandole {
namespace {

// Of a collective: no machine has that.
constexpr int64_t kMostBytes = int64_t{1} << 46;

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

BatchRunner::BatchRunner(int rank, std::string who, CollectiveStarter start, SubmissionTable* table, RankMeter* meter)
    : rank_(rank), who_(std::move(who)), start_(std::move(start)), table_(*table), meter_(*meter) {}

absl::Status BatchRunner::Begin(const Entry& entry) {
  absl::StatusOr<std::vector<int>> ranks = table_.RanksOf(entry.group);
  if (!ranks.ok()) return absl::OkStatus();  // a group of others that was removed here already
  const auto at = std::lower_bound(ranks->begin(), ranks->end(), rank_);
  if (at == ranks->end() || *at != rank_) return absl::OkStatus();
  const int position = static_cast<int>(at - ranks->begin());
  ranks_ = *std::move(ranks);
  counts_.assign(entry.counts.begin(), entry.counts.end());
  fragments_.clear();
  exchanges_rows_ = false;
  started_ns_ = MonotonicNs();
  collective_ = Collective();
  collective_.sequence = entry.sequence;
  collective_.op = entry.op;
  collective_.dtype = entry.dtype;
  collective_.reduce_op = entry.reduce_op;
  collective_.prescale = entry.prescale;
  collective_.postscale = entry.postscale;
  collective_.root = entry.root;
  collective_.arena = entry.arena;
  collective_.group = entry.group;
  collective_.ranks = ranks_;
  collective_.position = position;
  collective_.counts = counts_;
  meter_.BeginBatch(started_ns_, entry.items.empty() ? 0 : entry.items[0].slot);
  table_.log().Take(entry, started_ns_, &submissions_);
  is_running_.store(true);
  absl::Status started = Start(entry);
  if (started.ok() && operation_ == nullptr) Finish(absl::OkStatus());
  return started;
}

absl::StatusOr<bool> BatchRunner::JoinsIn(const Entry& entry) const {
  const auto missing = std::find(submissions_.begin(), submissions_.end(), nullptr);
  if (missing == submissions_.end()) return false;
  const bool misses_all =
      std::all_of(submissions_.begin(), submissions_.end(), [](auto* one) { return one == nullptr; });
  if (misses_all && table_.HasJoined()) return true;
  return absl::InternalError(absl::StrCat("the order log runs slot ", entry.items[missing - submissions_.begin()].slot,
                                          ", in which ", who_, " has no submission"));
}

// Leaves `operation_` empty where there is nothing to move.
absl::Status BatchRunner::Start(const Entry& entry) {
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(entry.dtype));
  const absl::StatusOr<bool> joins = JoinsIn(entry);
  if (!joins.ok()) return joins.status();
  const OpTraits& traits = TraitsOf(entry.op);
  if (traits.counts == OpTraits::Counts::kExchanged) return StartRowExchange();
  collective_.contributes = !*joins;
  if (absl::Status prepared = PrepareGpuBatch(entry); !prepared.ok()) return prepared;
  if (traits.has_root && traits.has_own_rows) return StartRowsOfRoot(entry);
  if (entry.op == OpType::kAllgather && (entry.flags & kRowsAreEmpty) == 0)
    collective_.count = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  if (absl::Status added = AddTensors(entry); !added.ok()) return added;
  if (entry.op == OpType::kReducescatter && !*joins) AddByPosition(element_bytes);
  collective_.fragments = fragments_;
  if (collective_.count == 0) return absl::OkStatus();
  if (collective_.arena != 0) arena_bytes_.fetch_add(collective_.count * element_bytes);
  return StartOperation();
}

// Adds the tensors of all submissions in the order of the items. Those of a reducescatter only count: AddByPosition.
absl::Status BatchRunner::AddTensors(const Entry& entry) {
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(entry.dtype));
  for (size_t item = 0; item < entry.items.size(); ++item) {
    Submission* submission = submissions_[item];
    if (entry.op == OpType::kAllgather)
      return submission == nullptr ? absl::OkStatus() : AddGathered(entry, submission);
    collective_.count += entry.items[item].count;
    if (submission == nullptr) continue;
    bytes_.fetch_add(submission->bytes());
    if (entry.op == OpType::kReducescatter) continue;
    // Broadcasts of any type travel as bytes.
    const int64_t factor = entry.op == OpType::kBroadcast ? static_cast<int64_t>(SizeOf(submission->dtype)) : 1;
    for (const Fragment& fragment : submission->fragments) {
      const Fragment part = {fragment.input, fragment.output, fragment.count * factor};
      // CUDA does not copy across the border between two allocations, even if their addresses are adjacent.
      if (submission->gpu != nullptr) {
        fragments_.push_back(part);
      } else {
        AddFragment(part, element_bytes, &fragments_);
      }
    }
  }
  return absl::OkStatus();
}

// Adds the input and the output of an allgather's only submission.
absl::Status BatchRunner::AddGathered(const Entry& entry, Submission* submission) {
  bytes_.fetch_add(submission->bytes());
  const int64_t row = (entry.flags & kRowsAreEmpty) != 0 ? 1 : submission->row_elements();
  for (int64_t count : counts_) submission->rows_by_position.push_back(count / row);
  submission->result_bytes = collective_.count * static_cast<int64_t>(SizeOf(entry.dtype));
  const absl::StatusOr<char*> result = AllocateResult(submission);
  if (!result.ok()) return result.status();
  const void* input = submission->fragments.empty() ? nullptr : submission->fragments[0].input;
  fragments_.push_back({input, *result, submission->count});
  return absl::OkStatus();
}

absl::StatusOr<char*> BatchRunner::AllocateResult(Submission* submission) {
  if (submission->gpu == nullptr) {
    submission->result.reset(new (std::nothrow) char[submission->result_bytes]);
    if (submission->result != nullptr) return submission->result.get();
    return absl::ResourceExhaustedError(absl::StrCat(who_, " has no memory for the ", submission->result_bytes,
                                                     " bytes of the result of '", submission->name, "'"));
  }
  // There the operation does it, in its stream.
  gpu_batch_.result_bytes = static_cast<size_t>(submission->result_bytes);
  return nullptr;
}

// Nothing where the tensors are the host's.
absl::Status BatchRunner::PrepareGpuBatch(const Entry& entry) {
  if ((entry.flags & kOnGpus) == 0) return absl::OkStatus();
  gpu_batch_ = GpuBatch();
  gpu_batch_.is_fused = entry.items.size() > 1;
  gpu_batch_.is_captured = (entry.flags & kIsCaptured) != 0;
  collective_.gpu_batch = &gpu_batch_;
  for (const Submission* submission : submissions_) {
    if (submission == nullptr) continue;
    gpu_batch_.gpu = submission->gpu;
    gpu_batch_.ready.push_back(submission->ready);
    if (gpu_batch_.label.empty()) gpu_batch_.label = absl::StrCat("'", submission->name, "'");
  }
  const size_t others = gpu_batch_.ready.size() - std::min<size_t>(gpu_batch_.ready.size(), 1);
  if (others > 0) absl::StrAppend(&gpu_batch_.label, " and ", others, others == 1 ? " other" : " others");
  if (gpu_batch_.is_captured && gpu_batch_.gpu == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(who_, " has joined, while others capture a collective in a CUDA graph: it ",
                     "would be missing whenever the graph runs"));
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::StartOperation() {
  absl::StatusOr<std::unique_ptr<Operation>> operation = start_(collective_);
  if (!operation.ok()) return operation.status();
  operation_ = *std::move(operation);
  return absl::OkStatus();
}

absl::Status BatchRunner::StartRowExchange() {
  const size_t size = ranks_.size();
  exchanges_rows_ = true;
  const Submission* submission = submissions_[0];
  sent_rows_.assign(size, 0);
  if (submission != nullptr) {
    bytes_.fetch_add(submission->bytes());
    sent_rows_.assign(submission->splits.begin(), submission->splits.end());
  }
  received_rows_.assign(size, 0);
  counts_.assign(size, 1);
  sent_counts_.assign(size, 1);
  const int64_t count = static_cast<int64_t>(size);
  fragments_.push_back({sent_rows_.data(), received_rows_.data(), count});
  collective_.dtype = DType::kI64;
  collective_.count = count;
  collective_.counts = counts_;
  collective_.sent_counts = sent_counts_;
  collective_.fragments = fragments_;
  return StartOperation();
}

// The others' numbers of rows have come over the network, where somebody may have changed them.
absl::Status BatchRunner::CheckReceivedRows(const Entry& entry) const {
  const int64_t row_bytes = std::max<int64_t>(1, entry.items[0].count * static_cast<int64_t>(SizeOf(entry.dtype)));
  int64_t left = kMostBytes / row_bytes;
  for (size_t position = 0; position < ranks_.size(); ++position) {
    const int64_t rows = received_rows_[position];
    if (rows < 0 || rows > left) {
      return absl::InternalError(absl::StrCat("rank ", ranks_[position], " says that it has ", rows, " rows of ",
                                              row_bytes, " bytes for ", who_, " in an alltoall"));
    }
    left -= rows;
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::StartRows(const Entry& entry) {
  exchanges_rows_ = false;
  operation_.reset();
  fragments_.clear();
  const int64_t row = entry.items[0].count;
  if (absl::Status valid = CheckReceivedRows(entry); !valid.ok()) return valid;
  for (size_t position = 0; position < ranks_.size(); ++position) {
    sent_counts_[position] = sent_rows_[position] * row;
    counts_[position] = received_rows_[position] * row;
  }
  Submission* submission = submissions_[0];
  if (absl::Status prepared = PrepareGpuBatch(entry); !prepared.ok()) return prepared;
  collective_.contributes = submission != nullptr;
  if (submission != nullptr) submission->rows_by_position = received_rows_;
  return MoveRows(entry);
}

absl::Status BatchRunner::StartRowsOfRoot(const Entry& entry) {
  const bool gathers = TraitsOf(entry.op).rows == OpTraits::Rows::kGathers;
  const int position = collective_.position;
  std::vector<int64_t>& at_root = gathers ? counts_ : sent_counts_;
  std::vector<int64_t>& at_each = gathers ? sent_counts_ : counts_;
  at_root.assign(ranks_.size(), 0);
  at_each.assign(ranks_.size(), 0);
  if (position == entry.root) at_root.assign(entry.counts.begin(), entry.counts.end());
  at_each[entry.root] = entry.counts[position];
  const bool are_empty = (entry.flags & kRowsAreEmpty) != 0;
  if (Submission* submission = submissions_[0]; submission != nullptr) {
    bytes_.fetch_add(submission->bytes());
    const int64_t row = are_empty ? 1 : submission->row_elements();
    for (const int64_t count : counts_) submission->rows_by_position.push_back(count / row);
  }
  if (are_empty) {
    at_root.assign(ranks_.size(), 0);
    at_each.assign(ranks_.size(), 0);
  }
  return MoveRows(entry);
}

// By an alltoall of `sent_counts_` and `counts_`.
absl::Status BatchRunner::MoveRows(const Entry& entry) {
  const int64_t sent = std::accumulate(sent_counts_.begin(), sent_counts_.end(), int64_t{0});
  const int64_t received = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  // A rank that has joined receives the others' rows, and drops them.
  Submission* submission = submissions_[0];
  if (submission != nullptr) {
    submission->result_bytes = received * static_cast<int64_t>(SizeOf(entry.dtype));
    const absl::StatusOr<char*> result = AllocateResult(submission);
    if (!result.ok()) return result.status();
    const void* input = submission->fragments.empty() ? nullptr : submission->fragments[0].input;
    fragments_.push_back({input, *result, sent});
  }
  collective_.op = OpType::kAlltoall;
  collective_.dtype = entry.dtype;
  collective_.count = received;
  collective_.counts = counts_;
  collective_.sent_counts = sent_counts_;
  collective_.fragments = fragments_;
  // NCCL wants all ranks when they connect.
  if (sent == 0 && received == 0 && collective_.gpu_batch == nullptr) return absl::OkStatus();
  return StartOperation();
}

// Adds all submissions' rows of position 0, then of position 1, ...
void BatchRunner::AddByPosition(int64_t element_bytes) {
  for (size_t position = 0; position < ranks_.size(); ++position) {
    for (const Submission* submission : submissions_) {
      if (!submission->fragments.empty()) AddFragment(submission->fragments[position], element_bytes, &fragments_);
    }
  }
}

absl::StatusOr<bool> BatchRunner::Advance(const Entry& entry) {
  // Not started, since another thread is about to end the epoch: that thread rings.
  if (operation_ == nullptr) return false;
  const absl::StatusOr<bool> complete = operation_->Advance();
  if (!complete.ok()) return complete.status();
  if (!*complete) return operation_->moved();
  if (exchanges_rows_) {
    if (absl::Status started = StartRows(entry); !started.ok()) return started;
    // It has not sent yet, and what its peers have sent may lie in this process already.
    if (operation_ != nullptr) return true;
  }
  Finish(absl::OkStatus());
  return true;
}

void BatchRunner::Fail(const absl::Status& status) {
  if (!is_running()) return;
  // A transport with threads of its own has let go of the bytes when it has said that it failed.
  if (operation_ != nullptr) operation_->Advance().status().IgnoreError();
  Finish(status);
}

void BatchRunner::Finish(const absl::Status& status) {
  operation_.reset();
  if (collective_.gpu_batch != nullptr) {
    for (Submission* submission : submissions_) {
      if (submission == nullptr) continue;
      submission->done = gpu_batch_.done;
      submission->gpu_result = std::move(gpu_batch_.result);
    }
  }
  batches_.fetch_add(1);
  const int64_t now_ns = MonotonicNs();
  meter_.EndBatch(started_ns_, now_ns);
  is_running_.store(false);
  table_.log().Complete(submissions_, status, started_ns_, now_ns);
}

}  // namespace farandole
