#include "worker/device/fake/fake_clique.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dtype.h"
#include "worker/device/nccl_library.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

using Kind = FakeNcclCall::Kind;

DType TypeOf(int dtype) {
  switch (dtype) {
    case kNcclInt8:
      return DType::kI8;
    case kNcclInt32:
      return DType::kI32;
    case kNcclInt64:
      return DType::kI64;
    case kNcclFloat16:
      return DType::kF16;
    case kNcclBfloat16:
      return DType::kBF16;
    case kNcclFloat8E4M3:
      return DType::kF8E4M3;
    case kNcclFloat8E5M2:
      return DType::kF8E5M2;
    case kNcclFloat32:
      return DType::kF32;
    case kNcclFloat64:
      return DType::kF64;
    default:
      FD_CHECK_EQ(dtype, kNcclUint8);
      return DType::kU8;
  }
}

ReduceOp OpOf(int op) {
  switch (op) {
    case kNcclProd:
      return ReduceOp::kProduct;
    case kNcclMax:
      return ReduceOp::kMax;
    case kNcclMin:
      return ReduceOp::kMin;
    case kNcclAvg:
      return ReduceOp::kAverage;
    default:
      return ReduceOp::kSum;
  }
}

// How much a call reads.
size_t InputBytes(const FakeNcclCall& call, int size, int position) {
  const size_t bytes = call.count * SizeOf(TypeOf(call.dtype));
  if (call.kind == Kind::kBroadcast && call.peer != position) return 0;
  return call.kind == Kind::kReduceScatter ? bytes * static_cast<size_t>(size) : bytes;
}

// Calls as bytes, for other processes, with the data that they read.
std::string Pack(const FakeNcclWork& calls, int size, int position) {
  std::string packed;
  for (const FakeNcclCall& call : calls) {
    packed.append(reinterpret_cast<const char*>(&call), sizeof(call));
    packed.append(call.input, InputBytes(call, size, position));
  }
  return packed;
}

FakeNcclWork Unpack(const std::string& packed, int size, int position) {
  FakeNcclWork calls;
  for (size_t at = 0; at < packed.size();) {
    FakeNcclCall& call = calls.emplace_back();
    std::memcpy(&call, packed.data() + at, sizeof(call));
    at += sizeof(call);
    call.input = packed.data() + at;
    call.output = nullptr;
    at += InputBytes(call, size, position);
  }
  return calls;
}

// Runs the calls of number `index` of all ranks, whose results are written when all inputs are read.
class Reckoning {
 public:
  explicit Reckoning(const std::vector<std::optional<FakeNcclWork>>& ranks) {
    for (const auto& calls : ranks) ranks_.push_back(&*calls);
  }

  void Run() {
    const size_t first = ranks_[0]->size();
    for (size_t index = 0; index < first; ++index) {
      for (const FakeNcclWork* calls : ranks_) CheckEqual((*ranks_[0])[index], *calls, index, first);
      Collective(index);
    }
    Write();
  }

 private:
  struct Result {
    char* to;
    std::vector<char> bytes;
  };

  static void CheckEqual(const FakeNcclCall& a, const FakeNcclWork& calls, size_t index, size_t count) {
    FD_CHECK_EQ(calls.size(), count) << "ranks make different numbers of calls";
    const FakeNcclCall& b = calls[index];
    FD_CHECK(a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.peer == b.peer)
        << "ranks make different calls";
    FD_CHECK(a.is_registered[0] == b.is_registered[0] && a.is_registered[1] == b.is_registered[1])
        << "some ranks' memory is registered, and some ranks' is not";
  }

  void Add(char* to, const char* from, size_t bytes) { results_.push_back({to, {from, from + bytes}}); }
  void Write() {
    for (const Result& result : results_) {
      // Another process writes its own.
      if (result.to != nullptr) std::copy(result.bytes.begin(), result.bytes.end(), result.to);
    }
  }

  std::vector<char> Reduced(size_t index, size_t count, const FakeNcclCall& call) {
    std::vector<const void*> inputs;
    std::vector<double> factors;
    for (const FakeNcclWork* calls : ranks_) {
      inputs.push_back((*calls)[index].input);
      factors.push_back((*calls)[index].factor);
    }
    const DType type = TypeOf(call.dtype);
    ReduceOp op = OpOf(call.op);
    // As NCCL, which divides sums of integers, and inputs that are floats.
    if (op == ReduceOp::kAverage && IsFloating(type)) {
      op = ReduceOp::kSum;
      std::fill(factors.begin(), factors.end(), 1.0 / static_cast<double>(ranks_.size()));
    }
    std::vector<char> output(count * SizeOf(type));
    Reduce(type, op, inputs, factors.data(), output.data(), static_cast<int64_t>(count), 1.0,
           static_cast<int>(ranks_.size()));
    return output;
  }

  void Collective(size_t index) {
    const FakeNcclCall& call = (*ranks_[0])[index];
    const size_t bytes = call.count * SizeOf(TypeOf(call.dtype));
    const size_t size = ranks_.size();
    std::vector<char> reduced;
    if (call.kind == Kind::kAllReduce || call.kind == Kind::kReduce) reduced = Reduced(index, call.count, call);
    if (call.kind == Kind::kReduceScatter) reduced = Reduced(index, call.count * size, call);
    for (size_t position = 0; position < size; ++position) {
      const FakeNcclCall& own = (*ranks_[position])[index];
      if (call.kind == Kind::kAllReduce) Add(own.output, reduced.data(), bytes);
      if (call.kind == Kind::kReduce && static_cast<int>(position) == call.peer) Add(own.output, reduced.data(), bytes);
      if (call.kind == Kind::kReduceScatter) Add(own.output, reduced.data() + position * bytes, bytes);
      if (call.kind == Kind::kBroadcast) Add(own.output, (*ranks_[call.peer])[index].input, bytes);
      for (size_t from = 0; call.kind == Kind::kAllGather && from < size; ++from) {
        if (own.output != nullptr) Add(own.output + from * bytes, (*ranks_[from])[index].input, bytes);
      }
    }
  }

  std::vector<const FakeNcclWork*> ranks_;
  std::vector<Result> results_;
};

}  // namespace

void FakeClique::Connect(int position) {
  if (files_ == nullptr) {
    ++connected_;
  } else {
    files_->Put("here", 0, position, "");
  }
}

bool FakeClique::IsConnected() {
  while (files_ != nullptr && connected_ < size_ && files_->Get("here", 0, connected_).has_value()) ++connected_;
  return connected_ == size_;
}

void FakeClique::Split(uint64_t number, int position, int color) {
  colors_[number][position] = color;
  if (files_ != nullptr) files_->Put("split", number, position, absl::StrCat(color));
}

std::optional<std::vector<int>> FakeClique::ColorsOf(uint64_t number) {
  std::map<int, int>& known = colors_[number];
  std::vector<int> colors;
  for (int position = 0; position < size_; ++position) {
    const std::optional<std::string> told =
        files_ != nullptr && known.count(position) == 0 ? files_->Get("split", number, position) : std::nullopt;
    if (told.has_value()) FD_CHECK(absl::SimpleAtoi(*told, &known[position])) << *told;
    const auto found = known.find(position);
    if (found == known.end()) return std::nullopt;
    colors.push_back(found->second);
  }
  return colors;
}

bool FakeClique::Collect(int position, uint64_t number, const FakeNcclWork& calls) {
  Round& round = rounds_[number];
  round.calls.resize(size_);
  const int before = round.arrived;
  if (!round.calls[position].has_value()) {
    round.calls[position] = calls;
    ++round.arrived;
    if (files_ != nullptr) files_->Put("round", number, position, Pack(calls, size_, position));
  }
  if (files_ != nullptr) Fetch(number, &round);
  if (round.arrived < size_) return false;
  if (before < size_) Reckoning(round.calls).Run();
  if (files_ != nullptr) {
    // A rank that has come to this round is done with those before.
    files_->Remove("round", number - 1, position);
    rounds_.erase(number);
  }
  return true;
}

// Gets the calls that other processes have brought meanwhile.
void FakeClique::Fetch(uint64_t number, Round* round) {
  for (int position = 0; position < size_; ++position) {
    if (round->calls[position].has_value()) continue;
    std::optional<std::string> packed = files_->Get("round", number, position);
    if (!packed.has_value()) continue;
    round->memory.push_back(*std::move(packed));
    round->calls[position] = Unpack(round->memory.back(), size_, position);
    ++round->arrived;
  }
}

bool FakeClique::Exchange(int position, const FakeNcclWork& calls, bool* has_sent) {
  std::map<int, size_t> wanted;
  for (const FakeNcclCall& call : calls) {
    const size_t bytes = call.count * SizeOf(TypeOf(call.dtype));
    if (call.kind == Kind::kRecv) ++wanted[call.peer];
    if (call.kind == Kind::kSend && !*has_sent) Send(position, call.peer, {call.input, bytes});
  }
  *has_sent = true;
  for (const auto& [peer, count] : wanted) {
    if (!HasMail(peer, position, count)) return false;
  }
  for (const FakeNcclCall& call : calls) {
    if (call.kind != Kind::kRecv) continue;
    std::deque<std::string>& waiting = mail_[{call.peer, position}].waiting;
    FD_CHECK_EQ(waiting.front().size(), call.count * SizeOf(TypeOf(call.dtype))) << "a receive of another size";
    std::memcpy(call.output, waiting.front().data(), waiting.front().size());
    waiting.pop_front();
  }
  return true;
}

void FakeClique::Send(int from, int to, std::string letter) {
  Letters& letters = mail_[{from, to}];
  if (files_ == nullptr || from == to) {
    letters.waiting.push_back(std::move(letter));
  } else {
    files_->Put(absl::StrCat("mail", to), ++letters.sent, from, letter);
  }
}

bool FakeClique::HasMail(int from, int to, size_t count) {
  Letters& letters = mail_[{from, to}];
  while (files_ != nullptr && from != to && letters.waiting.size() < count) {
    const std::string kind = absl::StrCat("mail", to);
    std::optional<std::string> letter = files_->Get(kind, letters.received + 1, from);
    if (!letter.has_value()) return false;
    files_->Remove(kind, ++letters.received, from);
    letters.waiting.push_back(*std::move(letter));
  }
  return letters.waiting.size() >= count;
}

}  // namespace farandole
