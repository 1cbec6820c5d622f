#ifndef FARANDOLE_WORKER_KERNELS_VECTOR_KERNELS_H_
#define FARANDOLE_WORKER_KERNELS_VECTOR_KERNELS_H_

// Conversion of arrays between short floats and float, and the table of a
// level. For the reduce_<level>.cc files only: see vector_types.h on linkage.

#include <cstdint>

#include "worker/kernels/kernel_table.h"
#include "worker/kernels/vector_elements.h"
#include "worker/kernels/vector_reduce.h"

namespace farandole {
namespace {

// From and To are elements with the same lanes.
template <typename From, typename To, typename FromValue, typename ToValue>
void Convert(const FromValue* from, ToValue* to, int64_t count) {
  using Bits = typename To::Bits;
  constexpr int64_t kLanes = From::kLanes;
  const char* source = reinterpret_cast<const char*>(from);
  char* target = reinterpret_cast<char*>(to);
  for (; count >= kLanes; count -= kLanes) {
    Store<To>(target, CanonicalNans<Bits>(Load<From>(source)));
    source += sizeof(typename From::Stored);
    target += sizeof(typename To::Stored);
  }
  if (count == 0) return;
  const auto lanes = LoadPartial<From>(source, count * sizeof(FromValue));
  StorePartial<To>(target, CanonicalNans<Bits>(lanes), count * sizeof(ToValue));
}

template <typename Element>
constexpr void SetRow(KernelTable& table, DType dtype) {
  auto& row = table.reduce[static_cast<int>(dtype)];
  row[kAdd] = Reduce<Element, Add<Element>>;
  row[kMinimum] = Reduce<Element, Minimum<Element>>;
  row[kMaximum] = Reduce<Element, Maximum<Element>>;
  row[kMultiply] = Reduce<Element, Multiply<Element>>;
}

template <typename Level, typename Integer, typename Wrapping>
constexpr void SetIntegerRow(KernelTable& table, DType dtype) {
  using Ordered = IntegerElement<Level, Integer>;
  using Modular = IntegerElement<Level, Wrapping>;
  auto& row = table.reduce[static_cast<int>(dtype)];
  row[kAdd] = ReduceIntegers<Integer, Modular, Add<Modular>>;
  row[kMinimum] = ReduceIntegers<Integer, Ordered, Minimum<Ordered>>;
  row[kMaximum] = ReduceIntegers<Integer, Ordered, Maximum<Ordered>>;
  row[kMultiply] = ReduceIntegers<Integer, Modular, Multiply<Modular>>;
}

// The kernels of a Level: see vector_elements.h. Evaluated by the compiler, so that no initializer of a level runs on a
// processor that lacks it.
template <typename Level>
constexpr KernelTable MakeTable(const char* name) {
  using F16 = F16Element<Level>;
  using BF16 = BF16Element<Level>;
  using F32 = F32Element<Level>;
  using E4M3 = Float8Element<Level, E4M3Format<Level>>;
  using E5M2 = Float8Element<Level, E5M2Format<Level>>;
  using Bool = BoolElement<Level>;
  KernelTable table = {};
  table.name = name;
  SetIntegerRow<Level, uint8_t, uint8_t>(table, DType::kU8);
  SetIntegerRow<Level, int8_t, uint8_t>(table, DType::kI8);
  SetIntegerRow<Level, int16_t, uint16_t>(table, DType::kI16);
  SetIntegerRow<Level, uint16_t, uint16_t>(table, DType::kU16);
  SetIntegerRow<Level, int32_t, uint32_t>(table, DType::kI32);
  SetIntegerRow<Level, int64_t, uint64_t>(table, DType::kI64);
  SetRow<F16>(table, DType::kF16);
  SetRow<BF16>(table, DType::kBF16);
  SetRow<E4M3>(table, DType::kF8E4M3);
  SetRow<E5M2>(table, DType::kF8E5M2);
  SetRow<F32>(table, DType::kF32);
  SetRow<F64Element<Level>>(table, DType::kF64);
  auto& bools = table.reduce[static_cast<int>(DType::kBool)];
  bools[kAdd] = bools[kMaximum] = Reduce<Bool, Maximum<Bool>>;
  bools[kMultiply] = bools[kMinimum] = Reduce<Bool, Minimum<Bool>>;
  table.f16_to_f32 = Convert<F16, F32, uint16_t, float>;
  table.f32_to_f16 = Convert<F32, F16, float, uint16_t>;
  table.bf16_to_f32 = Convert<BF16, F32, uint16_t, float>;
  table.f32_to_bf16 = Convert<F32, BF16, float, uint16_t>;
  table.e4m3_to_f32 = Convert<E4M3, F32, uint8_t, float>;
  table.f32_to_e4m3 = Convert<F32, E4M3, float, uint8_t>;
  table.e5m2_to_f32 = Convert<E5M2, F32, uint8_t, float>;
  table.f32_to_e5m2 = Convert<F32, E5M2, float, uint8_t>;
  return table;
}

}  // namespace
}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_VECTOR_KERNELS_H_
