#include "worker/collectives/schedule_operation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/kernels/reduce.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

// Work of one Advance: some 50 us where memory is the limit.
constexpr int64_t kBytesPerAdvance = 256 << 10;
// Below this a call of a kernel costs more than its work.
constexpr int64_t kLeastSlice = 512;

int64_t CountOf(absl::Span<const Fragment> fragments) {
  int64_t count = 0;
  for (const Fragment& fragment : fragments) count += fragment.count;
  return count;
}

}  // namespace

ScheduleOperation::ScheduleOperation(const Collective& collective, Schedule schedule, Transport& transport,
                                     BufferPool& pool)
    : collective_(collective),
      schedule_(std::move(schedule)),
      transport_(transport),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.dtype))),
      scratch_(pool.Take(schedule_.scratch_count * element_bytes_)) {
  FD_CHECK(collective.contributes || collective.fragments.empty())
      << "batch " << collective.sequence << ": a rank that has joined has " << collective.fragments.size()
      << " fragments";
  // Of a reducescatter, the working buffer is larger than the output.
  if (collective.fragments.size() == 1 && collective.op != OpType::kReducescatter) {
    work_ = static_cast<char*>(collective.fragments[0].output);
  } else {
    leased_work_ = pool.Take(collective.count * element_bytes_);
    work_ = leased_work_.data();
  }
  if (collective.op == OpType::kBroadcast && collective.position == collective.root && !collective.contributes) {
    error_ =
        absl::InternalError(absl::StrCat("batch ", collective.sequence, ": rank ", collective.ranks[collective.root],
                                         " is the root of a broadcast but has joined and has no data"));
  } else if (collective.op == OpType::kAllgather) {
    PlanAllgather();
  } else if (collective.op == OpType::kAlltoall) {
    PlanAlltoall();
  } else if (collective.op != OpType::kBarrier) {
    PlanPacking();
  }
}

void ScheduleOperation::PlanPacking() {
  const bool reduces = Reduces(collective_.op);
  if (!collective_.contributes) {
    if (reduces) AddCopy(&packing_, {nullptr, work_, collective_.count, 1.0});
    return;
  }
  FD_CHECK(CountOf(collective_.fragments) == collective_.count)
      << "batch " << collective_.sequence << ": " << collective_.count << " elements in fragments of "
      << CountOf(collective_.fragments);
  const bool is_root = collective_.position == collective_.root;
  char* place = work_;
  for (const Fragment& fragment : collective_.fragments) {
    const char* input = static_cast<const char*>(fragment.input);
    char* output = static_cast<char*>(fragment.output);
    if (reduces) {
      AddCopy(&packing_, {input, place, fragment.count, collective_.prescale});
    } else if (is_root) {
      AddCopy(&packing_, {input, place, fragment.count, 1.0});
    }
    // A root whose tensor stays where it is has nothing to write; of a reducescatter, others' shares have no output.
    if (output != nullptr && (reduces || !is_root || input != output)) {
      AddCopy(&unpacking_, {place, output, fragment.count, 1.0});
    }
    place += fragment.count * element_bytes_;
  }
}

void ScheduleOperation::PlanAllgather() {
  const Piece own = SharesOf(collective_.counts)[collective_.position];
  FD_CHECK(collective_.fragments.size() <= 1 && CountOf(collective_.fragments) == own.count)
      << "batch " << collective_.sequence << ": allgather of " << own.count << " elements from "
      << collective_.fragments.size() << " fragments with " << CountOf(collective_.fragments);
  if (collective_.fragments.empty()) return;
  AddCopy(&packing_, {static_cast<const char*>(collective_.fragments[0].input), At(own, 0), own.count, 1.0});
}

void ScheduleOperation::PlanAlltoall() {
  const std::vector<Piece> sent = SharesOf(collective_.sent_counts);
  const int64_t all = sent.back().offset + sent.back().count;
  FD_CHECK(collective_.fragments.size() <= 1 && CountOf(collective_.fragments) == all)
      << "batch " << collective_.sequence << ": alltoall of " << all << " elements from "
      << collective_.fragments.size() << " fragments with " << CountOf(collective_.fragments);
  if (collective_.fragments.empty()) return;
  const Piece received = SharesOf(collective_.counts)[collective_.position];
  const Piece own = {Buffer::kInput, sent[collective_.position].offset, received.count};
  AddCopy(&packing_, {At(own, 0), At(received, 0), own.count, 1.0});
}

void ScheduleOperation::AddCopy(std::vector<Copy>* copies, const Copy& copy) const {
  const bool in_place = copy.source == copy.target && copy.factor == 1.0;
  if (copy.count > 0 && !in_place) copies->push_back(copy);
}

absl::StatusOr<bool> ScheduleOperation::Advance() {
  moved_ = false;
  int64_t budget = kBytesPerAdvance;
  while (error_.ok() && stage_ != Stage::kDone && budget > 0) {
    switch (stage_) {
      case Stage::kPack:
        budget -= CopySome(packing_, Stage::kStartRound, budget);
        break;
      case Stage::kStartRound:
        StartRound();
        break;
      case Stage::kTransfer: {
        const absl::StatusOr<bool> finished = FinishTransfers();
        if (!finished.ok()) {
          error_ = finished.status();
        } else if (!*finished) {
          return false;
        }
        break;
      }
      case Stage::kReduce:
        budget -= ReduceSome(budget);
        break;
      case Stage::kUnpack:
        budget -= CopySome(unpacking_, Stage::kDone, budget);
        break;
      case Stage::kDone:
        break;
    }
  }
  if (!error_.ok()) return error_;
  return stage_ == Stage::kDone;
}

int64_t ScheduleOperation::CopySome(const std::vector<Copy>& copies, Stage next, int64_t budget) {
  int64_t bytes = 0;
  while (bytes < budget && next_ < copies.size()) {
    const Copy& copy = copies[next_];
    const int64_t count = std::min(copy.count - done_, std::max(kLeastSlice, (budget - bytes) / element_bytes_));
    char* target = copy.target + done_ * element_bytes_;
    if (copy.source == nullptr) {
      FillIdentity(collective_.dtype, collective_.reduce_op, target, count);
    } else {
      ScaleCopy(collective_.dtype, copy.source + done_ * element_bytes_, target, count, copy.factor);
    }
    moved_ = true;
    bytes += count * element_bytes_;
    done_ += count;
    if (done_ == copy.count) {
      done_ = 0;
      ++next_;
    }
  }
  if (next_ == copies.size()) {
    next_ = 0;
    stage_ = next;
  }
  return bytes;
}

void ScheduleOperation::StartRound() {
  if (round_ == schedule_.rounds.size()) {
    stage_ = Stage::kUnpack;
    return;
  }
  const Round& round = schedule_.rounds[round_];
  transfers_.clear();
  // The transport keeps pointers to them.
  transfers_.reserve(round.size());
  for (const Step& step : round) {
    if (step.kind == Step::Kind::kReduce) break;
    Transfer transfer;
    transfer.peer = collective_.ranks[step.peer];
    transfer.data = At(step.piece, 0);
    transfer.bytes = static_cast<size_t>(step.piece.count * element_bytes_);
    transfers_.push_back(transfer);
    if (step.kind == Step::Kind::kSend) {
      transport_.Send(&transfers_.back());
    } else {
      transport_.Receive(&transfers_.back());
    }
  }
  next_ = transfers_.size();
  stage_ = transfers_.empty() ? Stage::kReduce : Stage::kTransfer;
}

absl::StatusOr<bool> ScheduleOperation::FinishTransfers() {
  const absl::StatusOr<bool> progressed = transport_.Progress();
  if (!progressed.ok()) return progressed.status();
  if (*progressed) moved_ = true;
  const bool finished =
      std::all_of(transfers_.begin(), transfers_.end(), [](const Transfer& transfer) { return transfer.complete; });
  if (finished) {
    moved_ = true;
    stage_ = Stage::kReduce;
  }
  return finished;
}

int64_t ScheduleOperation::ReduceSome(int64_t budget) {
  const Round& round = schedule_.rounds[round_];
  const bool combines = IsAdasum(collective_);
  int64_t bytes = 0;
  while (bytes < budget && next_ < round.size()) {
    const Step& step = round[next_];
    const int64_t bytes_each = static_cast<int64_t>(step.sources.size()) * element_bytes_;
    int64_t count = std::max(kLeastSlice, (budget - bytes) / bytes_each);
    // Both ranks that combine two tensors are to add their products in the same order.
    if (combines) count -= count % kAdasumBlock;
    count = std::min(step.piece.count - done_, count);
    const bool needs_products = combines && step.sources.size() == 2 && !has_products_;
    if (needs_products) {
      AddAdasumProducts(collective_.dtype, At(step.sources[0], done_), At(step.sources[1], done_), count, &products_);
    } else {
      ReduceSlice(step, count);
    }
    moved_ = true;
    bytes += count * bytes_each;
    done_ += count;
    if (done_ < step.piece.count) continue;
    done_ = 0;
    has_products_ = needs_products;
    if (needs_products) continue;
    products_ = {};
    ++next_;
  }
  if (next_ == round.size()) {
    next_ = 0;
    ++round_;
    stage_ = Stage::kStartRound;
  }
  return bytes;
}

void ScheduleOperation::ReduceSlice(const Step& step, int64_t count) {
  const double postscale = step.finish ? collective_.postscale : 1.0;
  if (has_products_) {
    return CombineAdasum(collective_.dtype, products_, At(step.sources[0], done_), At(step.sources[1], done_),
                         At(step.piece, done_), count, postscale);
  }
  inputs_.clear();
  for (const Piece& source : step.sources) inputs_.push_back(At(source, done_));
  // An Adasum of one rank changes nothing but by the postscale.
  const bool is_sum = IsAdasum(collective_) || (collective_.reduce_op == ReduceOp::kAverage && !step.finish);
  Reduce(collective_.dtype, is_sum ? ReduceOp::kSum : collective_.reduce_op, inputs_, nullptr, At(step.piece, done_),
         count, postscale, static_cast<int>(collective_.ranks.size()));
}

char* ScheduleOperation::At(const Piece& piece, int64_t index) const {
  const int64_t offset = (piece.offset + index) * element_bytes_;
  // A schedule only sends from the input.
  if (piece.buffer == Buffer::kInput)
    return const_cast<char*>(static_cast<const char*>(collective_.fragments[0].input)) + offset;
  return (piece.buffer == Buffer::kWork ? work_ : scratch_.data()) + offset;
}

}  // namespace farandole
