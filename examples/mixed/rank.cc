// A rank in C++ of a job whose ranks are written in several languages: see README.md beside it.
#include <farandole/farandole.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int kCount = 1000;

// FNV-1a over the bytes: equal to the bit, or not.
uint64_t Fingerprint(const std::vector<float>& values) {
  uint64_t found = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(float); ++i) found = (found ^ bytes[i]) * 0x100000001b3;
  return found;
}

}  // namespace

int main() {
  using farandole::Call;
  using farandole::ExitOnError;
  using farandole::ReduceOp;
  farandole::Job job = ExitOnError(farandole::Init());
  std::vector<float> gradient(kCount);
  for (int i = 0; i < kCount; ++i) {
    gradient[static_cast<size_t>(i)] = static_cast<float>((37 * i + 11 * job.rank()) % 1000) / 7;
  }
  ExitOnError(job.AllreduceInPlace(gradient, Call("gradient").With(ReduceOp::kSum)));
  std::vector<int64_t> from_last = {100 + job.rank()};
  ExitOnError(job.BroadcastInPlace(from_last, job.size() - 1, "from last"));
  std::vector<int32_t> mine(static_cast<size_t>(2 * (job.rank() + 1)), job.rank());
  const farandole::Gathered rows =
      ExitOnError(job.Allgather(farandole::ConstTensor(mine, {job.rank() + 1, 2}), "rows"));
  std::vector<double> wrong(static_cast<size_t>(2 + job.rank()));
  const farandole::Status refused = job.AllreduceInPlace(wrong, "disagreement");
  std::vector<double> right(2);
  ExitOnError(job.AllreduceInPlace(right, "disagreement"));
  std::printf("C++: gradient %016llx, from last %lld, rows %zu, %s\n",
              static_cast<unsigned long long>(Fingerprint(gradient)), static_cast<long long>(from_last[0]),
              ExitOnError(rows.ToVector<int32_t>()).size() / 2,
              refused.ok() ? "nobody disagrees" : refused.message().c_str());
}
