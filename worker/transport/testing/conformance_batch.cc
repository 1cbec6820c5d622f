#include "worker/transport/testing/conformance_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/op_type.h"
#include "worker/kernels/float8.h"
#include "worker/kernels/half.h"
#include "worker/kernels/reduce.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

// A splitmix64 generator: small, and equal everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }

  // Of many magnitudes, so that the order of additions shows, and no sum or product of 8 overflows a float32.
  double NextFloat(bool special) {
    const uint64_t bits = Next();
    if (special && bits % 7 == 0) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0, -0.0};
      return kSpecial[bits / 7 % 5];
    }
    const double mantissa = static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53;
    const double scale = static_cast<double>(1 << (bits % 9)) / 16.0;
    return (bits & 512) != 0 ? -mantissa * scale : mantissa * scale;
  }

 private:
  uint64_t state_;
};

void FillRandomBlock(DType dtype, bool special, uint64_t seed, char* bytes, size_t count) {
  Random random(seed);
  if (dtype == DType::kF64) {
    std::vector<double> values(count);
    for (double& value : values) value = random.NextFloat(special);
    std::memcpy(bytes, values.data(), count * sizeof(double));
  } else if (IsFloating(dtype)) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.NextFloat(special));
    if (dtype == DType::kF32) std::memcpy(bytes, values.data(), count * sizeof(float));
    auto* code = reinterpret_cast<uint8_t*>(bytes);
    if (dtype == DType::kF8E4M3) F32ToE4M3(values.data(), code, static_cast<int64_t>(count));
    if (dtype == DType::kF8E5M2) F32ToE5M2(values.data(), code, static_cast<int64_t>(count));
    auto* half = reinterpret_cast<uint16_t*>(bytes);
    if (dtype == DType::kF16) F32ToF16(values.data(), half, static_cast<int64_t>(count));
    if (dtype == DType::kBF16) F32ToBF16(values.data(), half, static_cast<int64_t>(count));
  } else {
    // Of bool, 0 to 3: all but 0 are true.
    const uint64_t mask = dtype == DType::kBool ? 3 : 255;
    for (size_t i = 0; i < count * SizeOf(dtype); ++i) bytes[i] = static_cast<char>(random.Next() >> 24 & mask);
  }
}

void FillRandom(DType dtype, bool special, uint64_t seed, std::vector<char>* bytes) {
  if (bytes->empty()) return;
  // The rest repeats a block, since under a sanitizer most of the suite's time would go here; its length is prime, so
  // that no two chunks of a transport are equal.
  constexpr size_t kBlock = 16'381;
  const size_t block = std::min(bytes->size(), kBlock * SizeOf(dtype));
  FillRandomBlock(dtype, special, seed, bytes->data(), block / SizeOf(dtype));
  for (size_t at = block; at < bytes->size(); at += block) {
    std::memcpy(bytes->data() + at, bytes->data(), std::min(block, bytes->size() - at));
  }
}

}  // namespace

bool ConformanceBatch::HasJoined(int position) const {
  return std::find(joined.begin(), joined.end(), position) != joined.end();
}

int64_t ConformanceBatch::count() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

std::string ConformanceBatch::ToString() const {
  return absl::StrCat(TraitsOf(op).name, " of ", std::string(Name(dtype)), " (", std::string(Name(reduce_op)),
                      ", prescale ", prescale, ", postscale ", postscale, ", root ", root, in_place ? ", in place" : "",
                      ") of [", absl::StrJoin(counts, ","), "] elements on ranks [", absl::StrJoin(ranks, ","),
                      "], joined [", absl::StrJoin(joined, ","), "]");
}

ConformanceMemory::ConformanceMemory(const ConformanceBatch& batch, uint64_t sequence, std::vector<int> on_hosts)
    : batch_(batch),
      sequence_(sequence),
      on_hosts_(std::move(on_hosts)),
      element_bytes_(SizeOf(batch.dtype)),
      by_position_(batch.ranks.size()) {
  for (size_t position = 0; position < by_position_.size(); ++position) FillRank(static_cast<int>(position));
}

// A rank that has joined has no data for any rank, but others may have some for it.
void ConformanceMemory::FillAlltoallRank(size_t position) {
  Rank& rank = by_position_[position];
  int64_t sent = 0;
  int64_t received = 0;
  for (size_t other = 0; other < by_position_.size(); ++other) {
    sent += rank.sent_counts.emplace_back(batch_.CountFor(position, other));
    received += rank.received_counts.emplace_back(batch_.CountFor(other, position));
  }
  if (batch_.HasJoined(static_cast<int>(position))) return;
  rank.contribution.resize(sent * element_bytes_);
  FillRandom(batch_.dtype, batch_.special_values, sequence_ * 100 + position, &rank.contribution);
  rank.inputs.push_back(rank.contribution);
  rank.outputs.emplace_back(received * element_bytes_, '\xa5');
  rank.fragments.push_back({rank.inputs[0].data(), rank.outputs[0].data(), sent});
}

std::vector<char> ConformanceMemory::Exchanged(size_t position) const {
  std::vector<char> result;
  for (const Rank& from : by_position_) {
    const auto share = from.sent_counts.begin() + position;
    const int64_t begin = std::accumulate(from.sent_counts.begin(), share, int64_t{0}) * element_bytes_;
    const int64_t bytes = *share * element_bytes_;
    result.insert(result.end(), from.contribution.begin() + begin, from.contribution.begin() + begin + bytes);
  }
  return result;
}

void ConformanceMemory::FillRank(int position) {
  Rank& rank = by_position_[position];
  if (batch_.op == OpType::kAlltoall) return FillAlltoallRank(static_cast<size_t>(position));
  if (batch_.HasJoined(position)) return;
  const bool gathers = batch_.op == OpType::kAllgather;
  const int64_t own = gathers ? batch_.counts[position] : batch_.count();
  rank.contribution.resize(own * element_bytes_);
  FillRandom(batch_.dtype, batch_.special_values, sequence_ * 100 + position, &rank.contribution);
  if (batch_.op == OpType::kBarrier) return;
  const std::vector<int64_t> counts = gathers ? std::vector<int64_t>{own} : batch_.counts;
  const char* from = rank.contribution.data();
  // Of a reducescatter, the parts for other ranks have no output.
  const auto is_output = [&](size_t i) {
    return batch_.op != OpType::kReducescatter || i == static_cast<size_t>(position);
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    rank.inputs.emplace_back(from, from + counts[i] * element_bytes_);
    const int64_t results = gathers ? batch_.count() : is_output(i) ? counts[i] : 0;
    rank.outputs.emplace_back(results * element_bytes_, '\xa5');
    if (batch_.in_place && is_output(i)) rank.outputs.back() = rank.inputs.back();
    from += counts[i] * element_bytes_;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    char* output = is_output(i) ? rank.outputs[i].data() : nullptr;
    rank.fragments.push_back({batch_.in_place && is_output(i) ? output : rank.inputs[i].data(), output, counts[i]});
  }
}

Collective ConformanceMemory::CollectiveOf(int position) const {
  Collective collective;
  collective.sequence = sequence_;
  collective.op = batch_.op;
  collective.dtype = batch_.dtype;
  collective.reduce_op = batch_.reduce_op;
  collective.prescale = batch_.prescale;
  collective.postscale = batch_.postscale;
  collective.group = batch_.group;
  collective.ranks = batch_.ranks;
  collective.position = position;
  collective.root = batch_.root;
  collective.count = batch_.count();
  if (batch_.op == OpType::kAllgather || batch_.op == OpType::kReducescatter) collective.counts = batch_.counts;
  if (batch_.op == OpType::kAlltoall) {
    collective.counts = by_position_[position].received_counts;
    collective.sent_counts = by_position_[position].sent_counts;
    collective.count = std::accumulate(collective.counts.begin(), collective.counts.end(), int64_t{0});
  }
  collective.fragments = by_position_[position].fragments;
  collective.contributes = !batch_.HasJoined(position);
  return collective;
}

std::vector<std::vector<char>> ConformanceMemory::Scaled() const {
  const int64_t count = batch_.count();
  std::vector<std::vector<char>> scaled;
  for (size_t position = 0; position < by_position_.size(); ++position) {
    scaled.emplace_back(count * element_bytes_);
    if (batch_.HasJoined(static_cast<int>(position))) {
      FillIdentity(batch_.dtype, batch_.reduce_op, scaled.back().data(), count);
    } else {
      ScaleCopy(batch_.dtype, by_position_[position].contribution.data(), scaled.back().data(), count, batch_.prescale);
    }
  }
  return scaled;
}

std::vector<char> ConformanceMemory::ReduceSome(const std::vector<std::vector<char>>& inputs, size_t first,
                                                size_t count, bool finish) const {
  std::vector<const void*> some;
  for (size_t i = first; i < first + count; ++i) some.push_back(inputs[i].data());
  std::vector<char> result(batch_.count() * element_bytes_);
  const bool averages = batch_.reduce_op == ReduceOp::kAverage;
  Reduce(batch_.dtype, averages && !finish ? ReduceOp::kSum : batch_.reduce_op, some, nullptr, result.data(),
         batch_.count(), finish ? batch_.postscale : 1.0, static_cast<int>(by_position_.size()));
  return result;
}

std::vector<char> ConformanceMemory::Reduced() const {
  if (batch_.count() == 0) return {};
  const std::vector<std::vector<char>> scaled = Scaled();
  if (on_hosts_.size() <= 1) return ReduceSome(scaled, 0, scaled.size(), true);
  std::vector<std::vector<char>> of_hosts;
  size_t first = 0;
  for (const int ranks : on_hosts_) {
    of_hosts.push_back(ReduceSome(scaled, first, static_cast<size_t>(ranks), false));
    first += static_cast<size_t>(ranks);
  }
  return ReduceSome(of_hosts, 0, of_hosts.size(), true);
}

std::vector<char> ConformanceMemory::Expected(int position) const {
  if (batch_.op == OpType::kAllreduce) return Reduced();
  if (batch_.op == OpType::kReducescatter) {
    const std::vector<char> all = Reduced();
    const auto share = batch_.counts.begin() + position;
    const auto begin = all.begin() + std::accumulate(batch_.counts.begin(), share, int64_t{0}) * element_bytes_;
    return {begin, begin + *share * element_bytes_};
  }
  if (batch_.op == OpType::kBroadcast) return by_position_[batch_.root].contribution;
  if (batch_.op == OpType::kAlltoall) return Exchanged(static_cast<size_t>(position));
  std::vector<char> gathered;
  for (const Rank& rank : by_position_) {
    gathered.insert(gathered.end(), rank.contribution.begin(), rank.contribution.end());
  }
  return gathered;
}

std::vector<char> ConformanceMemory::ResultOf(int position) const {
  std::vector<char> joined;
  for (const std::vector<char>& output : by_position_[position].outputs) {
    joined.insert(joined.end(), output.begin(), output.end());
  }
  return joined;
}

absl::Status ConformanceMemory::CheckResult() const {
  if (batch_.op == OpType::kBarrier) return absl::OkStatus();
  // All but a reducescatter's and an alltoall's results are the same.
  const bool scatters = batch_.op == OpType::kReducescatter || batch_.op == OpType::kAlltoall;
  const std::vector<char> of_all = scatters ? std::vector<char>() : Expected(0);
  for (size_t i = 0; i < by_position_.size(); ++i) {
    const int position = static_cast<int>(i);
    if (batch_.HasJoined(position)) continue;
    const std::vector<char> expected = scatters ? Expected(position) : of_all;
    absl::Status same = CheckSame(position, "result", ResultOf(position), expected);
    if (!same.ok()) return same;
    std::vector<char> inputs;
    for (const std::vector<char>& input : by_position_[i].inputs)
      inputs.insert(inputs.end(), input.begin(), input.end());
    same = CheckSame(position, "input", inputs, by_position_[i].contribution);
    if (!same.ok()) return same;
  }
  return absl::OkStatus();
}

absl::Status ConformanceMemory::CheckEqualOnAllRanks() const {
  for (size_t i = 1; i < by_position_.size(); ++i) {
    const int position = static_cast<int>(i);
    absl::Status same = CheckSame(position, "result", ResultOf(position), ResultOf(0));
    if (!same.ok()) return same;
  }
  return absl::OkStatus();
}

absl::Status ConformanceMemory::CheckSame(int position, const char* what, const std::vector<char>& actual,
                                          const std::vector<char>& expected) const {
  if (actual == expected) return absl::OkStatus();
  size_t at = 0;
  while (at < std::min(actual.size(), expected.size()) && actual[at] == expected[at]) ++at;
  const auto byte = [at](const std::vector<char>& bytes) {
    return at < bytes.size() ? absl::StrCat(static_cast<unsigned char>(bytes[at])) : "missing";
  };
  return absl::InternalError(absl::StrCat(what, " of rank ", batch_.ranks[position], ": byte ", at, ", of element ",
                                          at / element_bytes_, ", is ", byte(actual), ", not ", byte(expected), ", in ",
                                          batch_.ToString()));
}

}  // namespace farandole
