// Eigen's matrices, maps and half floats as tensors. Ends with the first sentence that does not hold.
#include <farandole/eigen.h>
#include <farandole/farandole.h>

#include <cstdio>
#include <cstdlib>

#include "tests/cpp/programs/require.h"

namespace {

using farandole::Call;
using farandole::ExitOnError;
using farandole::ReduceOp;
using farandole::ViewOf;

}  // namespace

int main() {
  farandole::Job job = ExitOnError(farandole::Init());
  const int size = job.size();
  Eigen::MatrixXf matrix = Eigen::MatrixXf::Constant(3, 2, 1);
  ExitOnError(job.AllreduceInPlace(ViewOf(matrix), Call("matrix").With(ReduceOp::kSum)));
  REQUIRE(matrix == Eigen::MatrixXf::Constant(3, 2, static_cast<float>(size)));
  float memory[6] = {1, 2, 3, 4, 5, 6};
  Eigen::Map<Eigen::Matrix<float, 2, 3, Eigen::RowMajor>> map(memory);
  map *= static_cast<float>(job.rank() + 1);
  ExitOnError(job.BroadcastInPlace(ViewOf(map), 0, "map"));
  REQUIRE(map(1, 2) == 6 && ViewOf(map).shape().ToString() == "[2,3]");
  const Eigen::MatrixXd columns = Eigen::MatrixXd::Constant(3, job.rank() + 1, job.rank());
  const farandole::Gathered gathered = ExitOnError(job.Allgather(ViewOf(columns), "columns"));
  const Eigen::Map<const Eigen::MatrixXd> all(static_cast<const double*>(gathered.data()), 3,
                                              gathered.shape().begin()[0]);
  REQUIRE(all.cols() == size * (size + 1) / 2 && all(2, all.cols() - 1) == size - 1);
  Eigen::Array<Eigen::bfloat16, 5, 1> narrow;
  narrow.setConstant(Eigen::bfloat16(2));
  ExitOnError(job.AllreduceInPlace(ViewOf(narrow), "narrow"));
  REQUIRE(narrow(4) == Eigen::bfloat16(2) && ViewOf(narrow).dtype() == farandole::DType::kBF16);
  Eigen::Matrix<Eigen::half, 1, 4> halves;
  halves.setConstant(Eigen::half(1));
  ExitOnError(job.AllreduceInPlace(ViewOf(halves), Call("halves").With(ReduceOp::kSum)));
  REQUIRE(halves(3) == Eigen::half(static_cast<float>(size)));
  std::printf("all holds\n");
}
