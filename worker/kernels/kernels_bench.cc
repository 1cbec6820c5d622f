// Elements per second of the reductions, per instruction set, in cache and out
// of it. Arguments: elements per input, inputs.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "benchmark/benchmark.h"
#include "worker/kernels/kernel_table.h"
#include "worker/kernels/reduce.h"
#include "worker/kernels/scale.h"

namespace farandole {
namespace {

// Each input in memory of its own, filled with ones.
std::vector<std::vector<char>> Ones(DType dtype, int64_t inputs, int64_t count) {
  std::vector<std::vector<char>> buffers(inputs);
  for (std::vector<char>& buffer : buffers) {
    buffer.resize(count * SizeOf(dtype));
    FillIdentity(dtype, ReduceOp::kProduct, buffer.data(), count);
  }
  return buffers;
}

void ReduceWith(benchmark::State& state, const KernelTable* table, DType dtype, CombineKind kind, int64_t divisor) {
  const int64_t count = state.range(0);
  const int64_t inputs = state.range(1);
  const std::vector<std::vector<char>> buffers = Ones(dtype, inputs, count);
  std::vector<const void*> pointers;
  for (const std::vector<char>& buffer : buffers) {
    pointers.push_back(buffer.data());
  }
  std::vector<char> output(count * SizeOf(dtype));
  const ReduceCall call = {pointers.data(), inputs, nullptr, output.data(), count, divisor, 1.0};
  for (auto _ : state) {
    table->reduce[static_cast<int>(dtype)][kind](call);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * count);
}

// The cost of one element to a caller: checks, dispatch and tail included.
void ReduceOneElement(benchmark::State& state, DType dtype) {
  const std::vector<std::vector<char>> buffers = Ones(dtype, 2, 1);
  const void* const inputs[] = {buffers[0].data(), buffers[1].data()};
  std::vector<char> output(SizeOf(dtype));
  for (auto _ : state) {
    Reduce(dtype, ReduceOp::kSum, inputs, nullptr, output.data(), 1, 1.0, 1);
    benchmark::ClobberMemory();
  }
}

void ScaleInto(benchmark::State& state, DType dtype) {
  const int64_t count = state.range(0);
  const std::vector<std::vector<char>> source = Ones(dtype, 1, count);
  std::vector<char> target(count * SizeOf(dtype));
  for (auto _ : state) {
    ScaleCopy(dtype, source[0].data(), target.data(), count, 0.5);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * count);
}

// 2048 elements stay in the first-level cache, 64 Ki in the second, 16 Mi in none.
void RegisterTable(const KernelTable* table) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF64, DType::kI32,
                      DType::kI64, DType::kU8}) {
    const std::string name = absl::StrCat(table->name, "/", Name(dtype));
    benchmark::RegisterBenchmark(absl::StrCat(name, "/sum").c_str(), ReduceWith, table, dtype, kAdd, 0)
        ->ArgsProduct({{2048, 65536, 16 << 20}, {2}})
        ->ArgsProduct({{2048}, {3, 4, 8}});
    benchmark::RegisterBenchmark(absl::StrCat(name, "/average").c_str(), ReduceWith, table, dtype, kAdd, 2)
        ->Args({2048, 2});
    benchmark::RegisterBenchmark(absl::StrCat(name, "/min").c_str(), ReduceWith, table, dtype, kMinimum, 0)
        ->Args({2048, 2});
  }
}

void RegisterAll() {
  for (const KernelTable* table : SupportedKernels()) RegisterTable(table);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32}) {
    const std::string name(Name(dtype));
    benchmark::RegisterBenchmark(absl::StrCat("one_element/", name).c_str(), ReduceOneElement, dtype);
    benchmark::RegisterBenchmark(absl::StrCat("scale/", name).c_str(), ScaleInto, dtype)->Arg(2048);
  }
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  farandole::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
