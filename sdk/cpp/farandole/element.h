#ifndef FARANDOLE_SDK_CPP_FARANDOLE_ELEMENT_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_ELEMENT_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "farandole/c_api.h"

namespace farandole {
inline namespace sdk {

/// Element types of tensors; the numbers are those of the C interface.
enum class DType : int32_t {
  kU8 = FARANDOLE_U8,
  kI8 = FARANDOLE_I8,
  kI16 = FARANDOLE_I16,
  kI32 = FARANDOLE_I32,
  kI64 = FARANDOLE_I64,
  kF16 = FARANDOLE_F16,
  kBF16 = FARANDOLE_BF16,
  kF32 = FARANDOLE_F32,
  kF64 = FARANDOLE_F64,
  kBool = FARANDOLE_BOOL,
  kU16 = FARANDOLE_U16,
  kF8E4M3 = FARANDOLE_F8E4M3,
  kF8E5M2 = FARANDOLE_F8E5M2,
};

/// "float32", "uint8".
inline const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "uint8";
    case DType::kI8:
      return "int8";
    case DType::kI16:
      return "int16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kBool:
      return "bool";
    case DType::kU16:
      return "uint16";
    case DType::kF8E4M3:
      return "float8_e4m3fn";
    case DType::kF8E5M2:
      return "float8_e5m2";
  }
  return "unknown";
}

/// A floating-point number of fewer bits than float, for storage: `Bits` holds one sign, `kExponent` bits of exponent
/// and `kMantissa` of mantissa. Widening is exact. Narrowing rounds to nearest even and keeps subnormals; every NaN
/// becomes the same one. A format without infinity (float8_e4m3fn) has one NaN, all ones, and stays at its largest
/// number beyond that.
template <typename Bits, int kExponent, int kMantissa, bool kHasInfinity>
struct NarrowFloat {
  Bits bits = 0;

  NarrowFloat() = default;
  explicit NarrowFloat(float value) : bits(Narrow(value)) {}
  static constexpr NarrowFloat FromBits(Bits bits) {
    NarrowFloat made;
    made.bits = bits;
    return made;
  }
  operator float() const { return Widen(bits); }

 private:
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kSign = 1u << (kExponent + kMantissa);
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kLargest = kHasInfinity ? kInfinity - 1 : kSign - 2;
  static constexpr uint32_t kBeyond = kHasInfinity ? kInfinity : kLargest;
  // PyTorch's quiet NaN of float16 and bfloat16; all ones for 8 bits.
  static constexpr uint32_t kNaN = sizeof(Bits) == 1 ? kSign - 1 : kInfinity | (1u << (kMantissa - 1));

  static uint32_t RoundedShift(uint32_t value, int shift) {
    return (value + (1u << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift;
  }

  static Bits Narrow(float value) {
    uint32_t whole;
    std::memcpy(&whole, &value, sizeof(whole));
    const uint32_t sign = whole >> 31 != 0 ? kSign : 0;
    whole &= 0x7fffffff;
    if (whole > 0x7f800000) return static_cast<Bits>(kNaN);
    if (whole == 0x7f800000) return static_cast<Bits>(sign | kBeyond);
    const int exponent = static_cast<int>(whole >> 23) - 127 + kBias;
    if (exponent >= 1 || kExponent == 8) {
      // A carry out of the mantissa goes to the exponent.
      const uint32_t rounded = RoundedShift(whole - (static_cast<uint32_t>(127 - kBias) << 23), kShift);
      return static_cast<Bits>(sign | (rounded > kLargest ? kBeyond : rounded));
    }
    const int shift = kShift + 1 - exponent;
    const uint32_t mantissa = (whole & 0x7fffff) | 0x800000;
    return static_cast<Bits>(sign | (shift > 25 ? 0 : RoundedShift(mantissa, shift)));
  }

  static float Widen(Bits bits) {
    const uint32_t magnitude = bits & (kSign - 1);
    uint32_t whole = 0;
    if (magnitude > kBeyond) {
      whole = 0x7fc00000;  // every NaN is widened to the positive quiet one
    } else if (kHasInfinity && magnitude == kInfinity) {
      whole = 0x7f800000;
    } else if (magnitude >> kMantissa == 0 && kExponent != 8) {
      const float value = std::ldexp(static_cast<float>(magnitude), 1 - kBias - kMantissa);
      std::memcpy(&whole, &value, sizeof(whole));
    } else {
      whole = (magnitude << kShift) + (static_cast<uint32_t>(127 - kBias) << 23);
    }
    if ((bits & kSign) != 0 && magnitude <= kBeyond) whole |= 0x80000000;
    float value;
    std::memcpy(&value, &whole, sizeof(value));
    return value;
  }
};

using Float16 = NarrowFloat<uint16_t, 5, 10, true>;
using BFloat16 = NarrowFloat<uint16_t, 8, 7, true>;
/// As ml_dtypes and PyTorch have them: float8_e4m3fn and float8_e5m2.
using Float8E4M3 = NarrowFloat<uint8_t, 4, 3, false>;
using Float8E5M2 = NarrowFloat<uint8_t, 5, 2, true>;

/// The element type of a C++ type: ElementOf<float>::value. A library's own type of the same bits may be added by a
/// specialization, as farandole/eigen.h does.
template <typename T>
struct ElementOf;

template <DType kDType>
using Element = std::integral_constant<DType, kDType>;

template <>
struct ElementOf<unsigned char> : Element<DType::kU8> {};
template <>
struct ElementOf<std::byte> : Element<DType::kU8> {};
template <>
struct ElementOf<signed char> : Element<DType::kI8> {};
template <>
struct ElementOf<short> : Element<DType::kI16> {};
template <>
struct ElementOf<unsigned short> : Element<DType::kU16> {};
template <>
struct ElementOf<int> : Element<DType::kI32> {};
template <>
struct ElementOf<long> : Element<DType::kI64> {};
template <>
struct ElementOf<long long> : Element<DType::kI64> {};
template <>
struct ElementOf<Float16> : Element<DType::kF16> {};
template <>
struct ElementOf<BFloat16> : Element<DType::kBF16> {};
template <>
struct ElementOf<float> : Element<DType::kF32> {};
template <>
struct ElementOf<double> : Element<DType::kF64> {};
template <>
struct ElementOf<bool> : Element<DType::kBool> {};
template <>
struct ElementOf<Float8E4M3> : Element<DType::kF8E4M3> {};
template <>
struct ElementOf<Float8E5M2> : Element<DType::kF8E5M2> {};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_ELEMENT_H_
