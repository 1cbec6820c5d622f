#ifndef FARANDOLE_SDK_CPP_FARANDOLE_EIGEN_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_EIGEN_H_

#include <Eigen/Core>
#include <cstdint>
#include <type_traits>

#include "farandole/tensor.h"

/// @file
/// Tensors of Eigen's matrices, arrays, vectors and maps: job.AllreduceInPlace(ViewOf(weights), "weights").
namespace farandole {
inline namespace sdk {

template <>
struct ElementOf<Eigen::half> : Element<DType::kF16> {};
template <>
struct ElementOf<Eigen::bfloat16> : Element<DType::kBF16> {};

/// The dimensions of a matrix whose elements are contiguous, in the order of its memory: [rows,columns] if it is stored
/// by rows; [columns,rows] if it is stored by columns, as Eigen's are by default, so that an allgather appends columns;
/// [size] of a vector.
template <typename Matrix>
Shape ShapeOf(const Matrix& matrix) {
  const auto rows = static_cast<int64_t>(matrix.rows());
  const auto columns = static_cast<int64_t>(matrix.cols());
  if constexpr (Matrix::IsVectorAtCompileTime) {
    return Shape{rows * columns};
  } else if constexpr (Matrix::IsRowMajor) {
    return Shape{rows, columns};
  } else {
    return Shape{columns, rows};
  }
}

/// A view of a matrix, an array or a map without strides, which must outlive it. Others do not compile: copy a block
/// first.
template <typename Matrix>
MutableTensor ViewOf(Matrix&& matrix) {
  using Plain = std::remove_reference_t<Matrix>;
  static_assert((Eigen::internal::evaluator<Plain>::Flags & Eigen::LinearAccessBit) != 0,
                "a tensor's elements are contiguous: copy this part of a matrix into one of its own");
  return MutableTensor(matrix.data(), ShapeOf(matrix));
}
template <typename Matrix>
ConstTensor ViewOf(const Matrix& matrix) {
  static_assert((Eigen::internal::evaluator<Matrix>::Flags & Eigen::LinearAccessBit) != 0,
                "a tensor's elements are contiguous: copy this part of a matrix into one of its own");
  return ConstTensor(matrix.data(), ShapeOf(matrix));
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_EIGEN_H_
