#include "worker/kernels/reduce_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace farandole {
namespace {

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// `value` rounded to `digits` binary digits, or fewer where the last of them
// would be less than 2^least_exponent.
double Rounded(double value, int digits, int least_exponent) {
  int exponent;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - digits, least_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
}

struct F16 {
  using Computed = float;
  static float Decode(uint16_t bits) { return ReferenceF16ToF32(bits); }
  static uint16_t Encode(float value) { return ReferenceF32ToF16(value); }
};

struct BF16 {
  using Computed = float;
  static float Decode(uint16_t bits) { return ReferenceBF16ToF32(bits); }
  static uint16_t Encode(float value) { return ReferenceF32ToBF16(value); }
};

struct E4M3 {
  using Computed = float;
  static float Decode(uint8_t code) { return ReferenceE4M3ToF32(code); }
  static uint8_t Encode(float value) { return ReferenceF32ToE4M3(value); }
};

struct E5M2 {
  using Computed = float;
  static float Decode(uint8_t code) { return ReferenceE5M2ToF32(code); }
  static uint8_t Encode(float value) { return ReferenceF32ToE5M2(value); }
};

struct F32 {
  using Computed = float;
  static float Decode(uint32_t bits) { return BitCast<float>(bits); }
  static uint32_t Encode(float value) { return std::isnan(value) ? 0x7fc00000 : BitCast<uint32_t>(value); }
};

struct F64 {
  using Computed = double;
  static double Decode(uint64_t bits) { return BitCast<double>(bits); }
  static uint64_t Encode(double value) { return std::isnan(value) ? 0x7ff8000000000000 : BitCast<uint64_t>(value); }
};

template <typename Float>
Float CombineFloats(ReduceOp op, Float a, Float b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case ReduceOp::kMax:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

template <typename Integer>
Integer CombineIntegers(ReduceOp op, Integer a, Integer b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return static_cast<Integer>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    default:
      return static_cast<Integer>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <typename Integer>
Integer ScaledInteger(Integer value, double factor) {
  if (factor == 1.0) return value;
  const double product = std::trunc(static_cast<double>(value) * factor);
  if (std::isnan(product)) return 0;
  const long double least = std::numeric_limits<Integer>::min();
  const long double greatest = std::numeric_limits<Integer>::max();
  const long double fitting = std::min(std::max(static_cast<long double>(product), least), greatest);
  return static_cast<Integer>(fitting);
}

template <typename Value>
Value ElementAt(const void* buffer, int64_t index) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(buffer) + index * sizeof(value), sizeof(value));
  return value;
}

struct Call {
  ReduceOp op;
  absl::Span<const void* const> inputs;
  const double* scales;
  double postscale;
  int average_over;

  double Scale(size_t input) const { return scales ? scales[input] : 1.0; }
};

template <typename Float, typename Bits>
Bits FloatAt(const Call& call, int64_t index) {
  using Computed = typename Float::Computed;
  Computed result = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    Computed value = Float::Decode(ElementAt<Bits>(call.inputs[k], index));
    value *= static_cast<Computed>(call.Scale(k));
    result = k == 0 ? value : CombineFloats(call.op, result, value);
  }
  if (call.op == ReduceOp::kAverage) {
    result /= static_cast<Computed>(call.average_over);
  }
  return Float::Encode(result * static_cast<Computed>(call.postscale));
}

template <typename Integer>
Integer IntegerAt(const Call& call, int64_t index) {
  Integer result = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Integer value = ScaledInteger(ElementAt<Integer>(call.inputs[k], index), call.Scale(k));
    result = k == 0 ? value : CombineIntegers(call.op, result, value);
  }
  if (call.op == ReduceOp::kAverage) {
    result = static_cast<Integer>(static_cast<int64_t>(result) / call.average_over);
  }
  return ScaledInteger(result, call.postscale);
}

uint8_t BoolAt(const Call& call, int64_t index) {
  bool any = false;
  bool all = true;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const bool value = ElementAt<uint8_t>(call.inputs[k], index) != 0 && call.Scale(k) != 0.0;
    any = any || value;
    all = all && value;
  }
  const bool is_all = call.op == ReduceOp::kMin || call.op == ReduceOp::kProduct;
  return (is_all ? all : any) && call.postscale != 0.0;
}

template <typename Value>
void Fill(void* output, int64_t count, const Call& call, Value (*element)(const Call&, int64_t)) {
  for (int64_t i = 0; i < count; ++i) {
    const Value value = element(call, i);
    std::memcpy(static_cast<char*>(output) + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void ReferenceReduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, const double* scales_or_null,
                     void* output, int64_t count, double postscale, int average_over) {
  const Call call = {op, inputs, scales_or_null, postscale, average_over};
  switch (dtype) {
    case DType::kU8:
      return Fill(output, count, call, IntegerAt<uint8_t>);
    case DType::kI8:
      return Fill(output, count, call, IntegerAt<int8_t>);
    case DType::kI16:
      return Fill(output, count, call, IntegerAt<int16_t>);
    case DType::kU16:
      return Fill(output, count, call, IntegerAt<uint16_t>);
    case DType::kI32:
      return Fill(output, count, call, IntegerAt<int32_t>);
    case DType::kI64:
      return Fill(output, count, call, IntegerAt<int64_t>);
    case DType::kF16:
      return Fill(output, count, call, FloatAt<F16, uint16_t>);
    case DType::kBF16:
      return Fill(output, count, call, FloatAt<BF16, uint16_t>);
    case DType::kF8E4M3:
      return Fill(output, count, call, FloatAt<E4M3, uint8_t>);
    case DType::kF8E5M2:
      return Fill(output, count, call, FloatAt<E5M2, uint8_t>);
    case DType::kF32:
      return Fill(output, count, call, FloatAt<F32, uint32_t>);
    case DType::kF64:
      return Fill(output, count, call, FloatAt<F64, uint64_t>);
    case DType::kBool:
      return Fill(output, count, call, BoolAt);
  }
}

float ReferenceF16ToF32(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 31 && fraction != 0) return BitCast<float>(0x7fc00000u);
  double magnitude = INFINITY;
  if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else if (exponent < 31) {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

uint16_t ReferenceF32ToF16(float value) {
  if (std::isnan(value)) return 0x7e00;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00);
  const double magnitude = std::fabs(Rounded(value, 11, -24));
  if (magnitude > 65504) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent;
  std::frexp(magnitude, &exponent);
  if (magnitude < std::ldexp(1.0, -14)) {
    return static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  }
  const int fraction = static_cast<int>(std::ldexp(magnitude, 11 - exponent)) - 1024;
  return static_cast<uint16_t>(sign | (exponent + 14) << 10 | fraction);
}

float ReferenceBF16ToF32(uint16_t bits) {
  const float value = BitCast<float>(static_cast<uint32_t>(bits) << 16);
  return std::isnan(value) ? BitCast<float>(0x7fc00000u) : value;
}

uint16_t ReferenceF32ToBF16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const double rounded = std::isinf(value) ? value : Rounded(value, 8, -133);
  const bool overflows = std::fabs(rounded) >= std::ldexp(1.0, 128);
  const float result = overflows ? std::copysign(INFINITY, value) : static_cast<float>(rounded);
  return static_cast<uint16_t>(BitCast<uint32_t>(result) >> 16);
}

float ReferenceE4M3ToF32(uint8_t code) {
  const int magnitude = code & 0x7f;
  if (magnitude == 0x7f) return BitCast<float>(0x7fc00000u);
  const int exponent = magnitude >> 3;
  const int fraction = magnitude & 7;
  const double value = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return static_cast<float>(code & 0x80 ? -value : value);
}

uint8_t ReferenceF32ToE4M3(float value) {
  if (std::isnan(value)) return 0x7f;
  // Values beyond the largest number become the largest number.
  const double magnitude = std::min(std::fabs(static_cast<double>(value)), 448.0);
  const double rounded = Rounded(magnitude, 4, -9);
  int code = 0;
  while (ReferenceE4M3ToF32(static_cast<uint8_t>(code)) != rounded) ++code;
  return static_cast<uint8_t>(std::signbit(value) ? code | 0x80 : code);
}

float ReferenceE5M2ToF32(uint8_t code) { return ReferenceF16ToF32(static_cast<uint16_t>(code << 8)); }

uint8_t ReferenceF32ToE5M2(float value) {
  if (std::isnan(value)) return 0x7f;
  double rounded = std::isinf(value) ? value : Rounded(value, 3, -16);
  // It is exact in float16, or too large there as well.
  if (std::fabs(rounded) > 57344) rounded = std::copysign(INFINITY, rounded);
  return static_cast<uint8_t>(ReferenceF32ToF16(static_cast<float>(rounded)) >> 8);
}

}  // namespace farandole
