#include "deploy/bench/options.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole::bench {
namespace {

// Each tensor has a name of its own, and an epoch has room for so many without retiring any.
constexpr int kMostTensors = 10'000;
constexpr double kMostSeconds = 3600;

struct NamedDType {
  const char* name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {{"f32", DType::kF32},      {"f16", DType::kF16},   {"bf16", DType::kBF16},
                                  {"f64", DType::kF64},      {"i8", DType::kI8},     {"u8", DType::kU8},
                                  {"i16", DType::kI16},      {"u16", DType::kU16},   {"i32", DType::kI32},
                                  {"i64", DType::kI64},      {"bool", DType::kBool}, {"f8e4m3", DType::kF8E4M3},
                                  {"f8e5m2", DType::kF8E5M2}};
constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};

std::vector<std::string> DTypeNames() {
  std::vector<std::string> names;
  for (const NamedDType& each : kDTypes) names.emplace_back(each.name);
  return names;
}

// All collectives; a join is none.
std::vector<OpType> Ops() {
  std::vector<OpType> ops;
  for (int number = 0; number < kOpTypeCount; ++number) {
    if (static_cast<OpType>(number) != OpType::kJoin) ops.push_back(static_cast<OpType>(number));
  }
  return ops;
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const OpType op : Ops()) names.emplace_back(TraitsOf(op).name);
  return names;
}

std::vector<std::string> ReduceNames() {
  std::vector<std::string> names;
  for (const ReduceOp op : kReduceOps) names.emplace_back(Name(op));
  return names;
}

absl::Status NotOneOf(const char* option, const std::string& value, const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is '", value, "', but must be one of ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<OpType> ReadOp(const std::string& name) {
  for (const OpType op : Ops()) {
    if (name == TraitsOf(op).name) return op;
  }
  return NotOneOf("--op", name, OpNames());
}

absl::StatusOr<DType> ReadDType(const std::string& name) {
  for (const NamedDType& each : kDTypes) {
    if (name == each.name) return each.dtype;
  }
  return NotOneOf("--dtype", name, DTypeNames());
}

absl::StatusOr<ReduceOp> ReadReduce(const std::string& name) {
  for (const ReduceOp op : kReduceOps) {
    if (Name(op) == name) return op;
  }
  return NotOneOf("--reduce", name, ReduceNames());
}

// From --min to --max by --factor; the last one is --max itself only where the steps meet it.
std::vector<uint64_t> Sizes(const BenchOptions& options) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    sizes.push_back(bytes);
    if (bytes > options.max_bytes / options.factor) break;
  }
  return sizes;
}

Case CaseOf(OpType op, DType dtype, ReduceOp reduce, uint64_t bytes, const BenchOptions& options, int size) {
  Case what;
  what.op = op;
  what.dtype = dtype;
  what.reduce = reduce;
  what.tensors = options.tensors;
  what.in_arena = options.in_arena;
  const auto ranks = static_cast<uint64_t>(size);
  const uint64_t elements = bytes / SizeOf(dtype);
  switch (TraitsOf(op).rows) {
    case OpTraits::Rows::kNone:
      what.count = std::max<uint64_t>(elements, 1);
      break;
    case OpTraits::Rows::kGathers:
      what.count = std::max<uint64_t>(elements / ranks, 1);
      break;
    case OpTraits::Rows::kSharesOut:
      what.count = std::max<uint64_t>(elements / ranks, 1) * ranks;
      break;
  }
  return what;
}

}  // namespace

void AddBenchOptions(CLI::App* bench, BenchOptions* options) {
  const auto bytes = CLI::AsSizeValue(false);
  bench->add_option("--op", options->ops, absl::StrCat(absl::StrJoin(OpNames(), ", "), "; several with commas"))
      ->delimiter(',')
      ->capture_default_str();
  bench
      ->add_option("--dtype", options->dtypes,
                   absl::StrCat("Element type: ", absl::StrJoin(DTypeNames(), ", "), "; several with commas"))
      ->delimiter(',')
      ->capture_default_str();
  bench
      ->add_option("--reduce", options->reduce,
                   absl::StrCat("Of allreduce and reducescatter: ", absl::StrJoin(ReduceNames(), ", ")))
      ->capture_default_str();
  bench->add_option("--min", options->min_bytes, "Smallest size of a tensor in bytes; 64K and 1M are understood")
      ->transform(bytes)
      ->capture_default_str();
  bench->add_option("--max", options->max_bytes, "Largest size")->transform(bytes)->default_str("256M");
  bench->add_option("--factor", options->factor, "From one size to the next")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  bench->add_option("--tensors", options->tensors, "Tensors of that size in one step, each with a name of its own")
      ->check(CLI::Range(1, kMostTensors))
      ->capture_default_str();
  bench->add_flag("--arena", options->in_arena,
                  "The tensors of allreduce lie in memory that the ranks of this host share, and are reduced in place");
  bench->add_option("--seconds", options->seconds, "How long each size is measured")
      ->check(CLI::Range(0.0, kMostSeconds))
      ->capture_default_str();
  bench->add_option("--max-steps", options->max_steps, "Most steps of each size")
      ->check(CLI::Range(5, 100'000'000))
      ->capture_default_str();
  bench->add_option("--json", options->json, "Rank 0 writes the results there as well")->type_name("FILE");
}

absl::StatusOr<std::vector<Case>> ListCases(const BenchOptions& options, int size) {
  if (options.min_bytes > options.max_bytes || options.min_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min ", options.min_bytes, " must be at least 1 and at most --max ", options.max_bytes));
  }
  const absl::StatusOr<ReduceOp> reduce = ReadReduce(options.reduce);
  if (!reduce.ok()) return reduce.status();
  std::vector<Case> cases;
  for (const std::string& op_name : options.ops) {
    const absl::StatusOr<OpType> op = ReadOp(op_name);
    if (!op.ok()) return op.status();
    if (options.in_arena && *op != OpType::kAllreduce) {
      return absl::InvalidArgumentError(absl::StrCat("--arena is for allreduce only, not for --op ", op_name));
    }
    if (TraitsOf(*op).tensors == OpTraits::Tensors::kNone) {
      cases.emplace_back().op = *op;
      cases.back().dtype = DType::kU8;
      continue;
    }
    for (const std::string& dtype_name : options.dtypes) {
      const absl::StatusOr<DType> dtype = ReadDType(dtype_name);
      if (!dtype.ok()) return dtype.status();
      size_t last = 0;
      for (const uint64_t bytes : Sizes(options)) {
        const Case what = CaseOf(*op, *dtype, *reduce, bytes, options, size);
        if (what.count != last) cases.push_back(what);
        last = what.count;
      }
    }
  }
  return cases;
}

const char* ShortName(DType dtype) {
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [dtype](const NamedDType& each) { return each.dtype == dtype; });
  return found == std::end(kDTypes) ? "unknown" : found->name;
}

}  // namespace farandole::bench
