#include "worker/kernels/reduce.h"

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/kernels/kernel_table.h"
#include "worker/kernels/reduce_reference.h"

namespace farandole {
namespace {

using Bytes = std::vector<char>;

template <typename Value>
void Put(Bytes& bytes, int64_t index, Value value) {
  std::memcpy(bytes.data() + index * sizeof(value), &value, sizeof(value));
}

// The awkward values of the floating types, by their bits: zeros, subnormals,
// the smallest normal, one, the greatest, infinities, NaNs quiet and signalling.
template <typename Bits>
std::vector<Bits> AwkwardBits(int fraction_digits) {
  const Bits sign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const Bits one_exponent = Bits{1} << fraction_digits;
  const Bits infinity = sign - one_exponent;
  std::vector<Bits> all;
  for (Bits magnitude : {Bits{0}, Bits{1}, static_cast<Bits>(one_exponent - 1), one_exponent,
                         static_cast<Bits>(infinity / 2), static_cast<Bits>(infinity - 1), infinity,
                         static_cast<Bits>(infinity + 1), static_cast<Bits>(infinity + one_exponent / 2 + 5)}) {
    all.push_back(magnitude);
    all.push_back(static_cast<Bits>(magnitude | sign));
  }
  return all;
}

template <typename Bits>
void FillFloats(Bytes& bytes, int64_t count, int fraction_digits, std::mt19937_64& random) {
  const std::vector<Bits> awkward = AwkwardBits<Bits>(fraction_digits);
  // Exponents around one, so that most sums and products are finite.
  const Bits exponent = static_cast<Bits>(awkward[12] / 2 + 1) >> fraction_digits;
  for (int64_t i = 0; i < count; ++i) {
    if (random() % 4 == 0) {
      Put(bytes, i, awkward[random() % awkward.size()]);
      continue;
    }
    Bits bits = static_cast<Bits>(random()) & ((Bits{1} << fraction_digits) - 1);
    bits |= static_cast<Bits>(exponent - 3 + random() % 6) << fraction_digits;
    bits |= static_cast<Bits>(random() % 2) << (sizeof(Bits) * 8 - 1);
    Put(bytes, i, bits);
  }
}

// Integers and bool: random bytes, with the extremes among them.
void FillBytes(Bytes& bytes, size_t element_bytes, std::mt19937_64& random) {
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    const uint64_t choice = random() % 8;
    if (choice > 2) continue;
    std::memset(bytes.data() + at, choice == 0 ? -1 : 0, element_bytes);
    if (choice == 1) bytes[at + element_bytes - 1] = '\x80';
  }
}

// Every code of a float of 8 bits, with NaNs among them at times only.
void FillFloats8(Bytes& bytes, std::mt19937_64& random) {
  for (char& byte : bytes) byte = static_cast<char>(random());
}

Bytes RandomElements(DType dtype, int64_t count, std::mt19937_64& random) {
  Bytes bytes(count * SizeOf(dtype));
  switch (dtype) {
    case DType::kF16:
      FillFloats<uint16_t>(bytes, count, 10, random);
      break;
    case DType::kBF16:
      FillFloats<uint16_t>(bytes, count, 7, random);
      break;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      FillFloats8(bytes, random);
      break;
    case DType::kF32:
      FillFloats<uint32_t>(bytes, count, 23, random);
      break;
    case DType::kF64:
      FillFloats<uint64_t>(bytes, count, 52, random);
      break;
    default:
      FillBytes(bytes, SizeOf(dtype), random);
  }
  return bytes;
}

CombineKind KindOf(ReduceOp op) {
  if (op == ReduceOp::kMin) return kMinimum;
  if (op == ReduceOp::kMax) return kMaximum;
  return op == ReduceOp::kProduct ? kMultiply : kAdd;
}

// One reduction and what it must give.
struct Trial {
  DType dtype;
  ReduceOp op;
  std::vector<Bytes> inputs;
  std::vector<double> scales;  // empty for none
  double postscale;
  int64_t count;
  Bytes expected;

  std::string Text() const {
    return absl::StrCat(Name(dtype), " ", Name(op), " of ", inputs.size(), " inputs, ", count, " elements, ",
                        scales.size(), " scales, postscale ", postscale);
  }
  const double* Scales() const { return scales.empty() ? nullptr : scales.data(); }
  int AverageOver() const { return static_cast<int>(inputs.size()); }
};

Trial MakeTrial(DType dtype, ReduceOp op, int input_count, int64_t count, bool scaled, double postscale,
                std::mt19937_64& random) {
  constexpr double kScales[] = {0.5, 0.0, -3.0, 1.0, 0.333};
  Trial trial = {dtype, op, {}, {}, postscale, count, {}};
  std::vector<const void*> pointers;
  for (int k = 0; k < input_count; ++k) {
    trial.inputs.push_back(RandomElements(dtype, count, random));
    if (scaled) trial.scales.push_back(kScales[random() % 5]);
  }
  for (const Bytes& input : trial.inputs) pointers.push_back(input.data());
  trial.expected.resize(count * SizeOf(dtype));
  ReferenceReduce(dtype, op, pointers, trial.Scales(), trial.expected.data(), count, postscale, trial.AverageOver());
  return trial;
}

// Runs the trial with each buffer `offset` bytes into its memory and between
// guard bytes; the output is input `alias`, or apart where there is none such.
void Check(const Trial& trial, const KernelTable& table, int offset, size_t alias) {
  constexpr int kGuard = 64;
  const size_t bytes = trial.expected.size();
  std::vector<Bytes> memory(trial.inputs.size() + 1, Bytes(offset + bytes + kGuard, '\x5a'));
  std::vector<const void*> pointers;
  for (size_t k = 0; k < trial.inputs.size(); ++k) {
    std::copy(trial.inputs[k].begin(), trial.inputs[k].end(), memory[k].begin() + offset);
    pointers.push_back(memory[k].data() + offset);
  }
  Bytes& output = memory[std::min(alias, trial.inputs.size())];
  const int64_t divisor = trial.op == ReduceOp::kAverage ? trial.AverageOver() : 0;
  table.reduce[static_cast<int>(trial.dtype)][KindOf(trial.op)]({pointers.data(), static_cast<int64_t>(pointers.size()),
                                                                 trial.Scales(), output.data() + offset, trial.count,
                                                                 divisor, trial.postscale});
  Bytes expected(offset + bytes + kGuard, '\x5a');
  std::copy(trial.expected.begin(), trial.expected.end(), expected.begin() + offset);
  ASSERT_EQ(output, expected) << table.name << ": " << trial.Text() << ", offset " << offset << ", output is input "
                              << alias;
}

class ReduceTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  static constexpr size_t kApart = 1000;

  DType dtype() const { return static_cast<DType>(std::get<0>(GetParam())); }
  ReduceOp op() const { return static_cast<ReduceOp>(std::get<1>(GetParam())); }
  bool IsDefined() const { return dtype() != DType::kBool || op() != ReduceOp::kAverage; }

  std::mt19937_64 random_{20240607};
};

TEST_P(ReduceTest, EveryLevelGivesTheReferencesBits) {
  if (!IsDefined()) return;
  for (int inputs = 1; inputs <= 5; ++inputs) {
    for (int64_t count = 0; count <= 70; ++count) {
      for (const auto& [scaled, postscale] : {std::pair(false, 1.0), {true, 1.0}, {false, -0.7}, {true, 0.0}}) {
        const Trial trial = MakeTrial(dtype(), op(), inputs, count, scaled, postscale, random_);
        const int offset = static_cast<int>(count % 5 * SizeOf(dtype()));
        for (const KernelTable* table : SupportedKernels()) {
          Check(trial, *table, offset, kApart);
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, OutputMayBeAnyOfTheInputs) {
  if (!IsDefined()) return;
  for (int inputs = 1; inputs <= 5; ++inputs) {
    for (int64_t count : {1, 31, 64, 257, 1111}) {
      for (bool scaled : {false, true}) {
        const Trial trial = MakeTrial(dtype(), op(), inputs, count, scaled, 0.5, random_);
        for (const KernelTable* table : SupportedKernels()) {
          for (int alias = 0; alias < inputs; ++alias) {
            Check(trial, *table, 0, alias);
          }
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, LargeAndOddlyPlacedBuffersGiveTheReferencesBits) {
  if (!IsDefined()) return;
  for (int inputs : {2, 3, 17}) {
    const Trial trial = MakeTrial(dtype(), op(), inputs, 20011, false, 1.0, random_);
    for (const KernelTable* table : SupportedKernels()) {
      Check(trial, *table, 3, kApart);
      Check(trial, *table, 1, inputs - 1);
    }
    if (HasFatalFailure()) return;
  }
}

std::string ParamName(const testing::TestParamInfo<std::tuple<int, int>>& param) {
  return absl::StrCat(Name(static_cast<DType>(std::get<0>(param.param))), "_",
                      Name(static_cast<ReduceOp>(std::get<1>(param.param))));
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOps, ReduceTest,
                         testing::Combine(testing::Range(0, kDTypeCount), testing::Values(0, 1, 3, 4, 5)), ParamName);

float ReduceTwo(ReduceOp op, float a, float b) {
  const void* const inputs[] = {&a, &b};
  float result;
  Reduce(DType::kF32, op, inputs, nullptr, &result, 1, 1.0, 2);
  return result;
}

TEST(ReduceTwoTest, NanOnEitherSideWins) {
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
    EXPECT_TRUE(std::isnan(ReduceTwo(op, NAN, 1.0f)));
    EXPECT_TRUE(std::isnan(ReduceTwo(op, 1.0f, -NAN)));
  }
}

TEST(ReduceTwoTest, OfEqualValuesTheFirstStands) {
  EXPECT_TRUE(std::signbit(ReduceTwo(ReduceOp::kMin, -0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(ReduceTwo(ReduceOp::kMin, 0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(ReduceTwo(ReduceOp::kMax, -0.0f, 0.0f)));
}

TEST(ReduceTwoTest, IntegerSumWrapsAndAverageTruncatesTowardsZero) {
  const int8_t a[] = {127, -5, -128};
  const int8_t b[] = {1, 2, -1};
  const void* const inputs[] = {a, b};
  int8_t sum[3];
  Reduce(DType::kI8, ReduceOp::kSum, inputs, nullptr, sum, 3, 1.0, 0);
  EXPECT_EQ(sum[0], -128);
  EXPECT_EQ(sum[1], -3);
  EXPECT_EQ(sum[2], 127);
  Reduce(DType::kI8, ReduceOp::kAverage, inputs, nullptr, sum, 3, 1.0, 2);
  EXPECT_EQ(sum[0], -64);
  EXPECT_EQ(sum[1], -1);
  EXPECT_EQ(sum[2], 63);
}

TEST(ReduceTwoTest, HalfPrecisionRoundsOnce) {
  // 2048 + 1 + 1: rounding at each step would stay at 2048.
  const uint16_t big = 0x6800;
  const uint16_t one = 0x3c00;
  const void* const inputs[] = {&big, &one, &one};
  uint16_t result;
  Reduce(DType::kF16, ReduceOp::kSum, inputs, nullptr, &result, 1, 1.0, 0);
  EXPECT_EQ(ReferenceF16ToF32(result), 2050.0f);
}

TEST(ReduceTwoTest, FloatsOf8BitsRoundOnceAndStayInTheirRange) {
  // 16 + 1 + 1 of e4m3fn: rounding at each step would stay at 16.
  uint8_t big = 0x58;
  uint8_t one = 0x38;
  const void* const inputs[] = {&big, &one, &one};
  uint8_t result;
  Reduce(DType::kF8E4M3, ReduceOp::kSum, inputs, nullptr, &result, 1, 1.0, 0);
  EXPECT_EQ(ReferenceE4M3ToF32(result), 18.0f);
  // 448 + 448, and 57344 + 57344.
  big = 0x7e;
  Accumulate(DType::kF8E4M3, ReduceOp::kSum, &big, &big, 1);
  EXPECT_EQ(big, 0x7e);
  big = 0x7b;
  Accumulate(DType::kF8E5M2, ReduceOp::kSum, &big, &big, 1);
  EXPECT_EQ(big, 0x7c);
}

TEST(AccumulateTest, RanksAddedOneByOneAndFinishedGiveTheAverage) {
  std::vector<double> target = {1, 2, 3};
  const std::vector<double> second = {3, 4, 5};
  const std::vector<double> third = {5, 6, 10};
  Accumulate(DType::kF64, ReduceOp::kAverage, target.data(), second.data(), 3);
  Accumulate(DType::kF64, ReduceOp::kAverage, target.data(), third.data(), 3);
  EXPECT_EQ(target, (std::vector<double>{9, 12, 18}));
  Finish(DType::kF64, ReduceOp::kAverage, target.data(), 3, 10.0, 3);
  EXPECT_EQ(target, (std::vector<double>{30, 40, 60}));
}

TEST(AccumulateTest, FinishWithoutWorkLeavesTheBytes) {
  std::vector<float> buffer = {-0.0f, 5.0f};
  Finish(DType::kF32, ReduceOp::kMax, buffer.data(), 2, 1.0, 7);
  EXPECT_TRUE(std::signbit(buffer[0]));
  EXPECT_EQ(buffer[1], 5.0f);
}

TEST(FloatEnvironmentTest, TheCallersRoundingModeChangesNothingAndIsKept) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const float sum = ReduceTwo(ReduceOp::kSum, 1.0f, 0x1p-30f);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(sum, 1.0f);
  EXPECT_EQ(mode, FE_UPWARD);
}

TEST(ReduceDeathTest, UndefinedReductionsAreTheCallersBug) {
  const uint8_t value = 1;
  const void* const inputs[] = {&value};
  uint8_t out;
  EXPECT_DEATH(Reduce(DType::kBool, ReduceOp::kAverage, inputs, nullptr, &out, 1, 1.0, 1), "bool has no average");
  EXPECT_DEATH(Reduce(DType::kU8, ReduceOp::kAdasum, inputs, nullptr, &out, 1, 1.0, 1), "adasum");
}

}  // namespace
}  // namespace farandole
