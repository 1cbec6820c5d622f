#ifndef FARANDOLE_SDK_CPP_FARANDOLE_TENSOR_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_TENSOR_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "farandole/element.h"
#include "farandole/status.h"

namespace farandole {
inline namespace sdk {

/// The dimensions of a tensor, at most 32; none: a scalar. Holds them itself and allocates nothing.
class Shape {
 public:
  static constexpr int kMostDimensions = 32;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.size()) {}
  Shape(const int64_t* dims, size_t count) : ndim_(static_cast<int32_t>(std::min<size_t>(count, kSlots))) {
    std::copy_n(dims, ndim_, dims_);
  }
  /// A copy costs as much as there are dimensions.
  Shape(const Shape& other) : Shape(other.dims_, static_cast<size_t>(other.ndim_)) {}
  Shape& operator=(const Shape& other) {
    ndim_ = other.ndim_;
    std::copy_n(other.dims_, ndim_, dims_);
    return *this;
  }

  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + ndim_; }
  int32_t ndim() const { return ndim_; }
  /// The number of elements.
  int64_t count() const {
    int64_t count = 1;
    for (const int64_t dim : *this) count *= dim;
    return count;
  }
  /// "[4,8]".
  std::string ToString() const {
    std::string text = "[";
    for (const int64_t dim : *this) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
    return text + "]";
  }

 private:
  // One more than are allowed, so that the library sees the excess and refuses it.
  static constexpr size_t kSlots = kMostDimensions + 1;
  int64_t dims_[kSlots];
  int32_t ndim_ = 0;
};

/// Whether tensors can be made of a container, as std::data sees it: nothing is written into const elements, nor into a
/// container that owns its elements and is about to end.
template <typename Container, bool kIsMutable, typename = void>
struct IsViewable : std::false_type {};
template <typename Container, bool kIsMutable>
struct IsViewable<Container, kIsMutable, std::void_t<decltype(std::data(std::declval<Container&>()))>> {
  using Plain = std::remove_reference_t<Container>;
  using Element = std::remove_pointer_t<decltype(std::data(std::declval<Plain&>()))>;
  using ConstElement = std::remove_pointer_t<decltype(std::data(std::declval<const Plain&>()))>;
  static constexpr bool kOutlives = std::is_lvalue_reference_v<Container> || !std::is_const_v<ConstElement>;
  static constexpr bool value = !kIsMutable || (kOutlives && !std::is_const_v<Element>);
};

/// A view of elements that the caller owns: contiguous, in the order of C. Made from any type with std::data and
/// std::size (std::vector, std::array, std::span, a C array), or from a pointer, with a shape if that is not [size].
/// `Pointer` is const void* in ConstTensor, which operations read, and void* in MutableTensor, which they write.
template <typename Pointer>
class BasicTensor {
 public:
  static constexpr bool kIsMutable = !std::is_const_v<std::remove_pointer_t<Pointer>>;
  template <typename Container>
  using IfViewable = std::enable_if_t<IsViewable<Container, kIsMutable>::value>;

  template <typename Container, typename = IfViewable<Container>>
  BasicTensor(Container&& elements) : BasicTensor(std::data(elements), std::size(elements)) {}
  template <typename Container, typename = IfViewable<Container>>
  BasicTensor(Container&& elements, const Shape& shape) : BasicTensor(std::data(elements), shape) {
    if (const auto held = static_cast<int64_t>(std::size(elements)); held != shape.count()) held_ = held;
  }
  template <typename Address, typename = std::enable_if_t<std::is_pointer_v<Address>>>
  BasicTensor(const Address& elements, const Shape& shape)
      : BasicTensor(elements, shape, ElementOf<std::remove_const_t<std::remove_pointer_t<Address>>>::value) {}
  template <typename Address, typename Count,
            typename = std::enable_if_t<std::is_pointer_v<Address> && std::is_integral_v<Count>>>
  BasicTensor(const Address& elements, Count count) : BasicTensor(elements, Shape{static_cast<int64_t>(count)}) {}
  /// Elements of a type that is known at run time.
  BasicTensor(Pointer elements, const Shape& shape, DType dtype) : data_(elements), shape_(shape), dtype_(dtype) {}

  Pointer data() const { return data_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  /// INVALID_ARGUMENT: the shape is not that of the container.
  Status Check() const {
    if (held_ < 0) return Status();
    return Status(StatusCode::kInvalidArgument,
                  "a tensor of shape " + shape_.ToString() + " was made from " + std::to_string(held_) + " elements");
  }
  bool is_whole() const { return held_ < 0; }

 private:
  Pointer data_;
  Shape shape_;
  DType dtype_;
  int64_t held_ = -1;  // of the container, where that is not what the shape says
};

/// The view that an operation reads.
using ConstTensor = BasicTensor<const void*>;
/// The view that it writes.
using MutableTensor = BasicTensor<void*>;

/// The one element at `value`, as a tensor without dimensions.
template <typename T>
MutableTensor Scalar(T* value) {
  return MutableTensor(value, Shape());
}
template <typename T>
ConstTensor Scalar(const T* value) {
  return ConstTensor(value, Shape());
}
/// A tensor that is read as it is written.
inline ConstTensor AsConst(const MutableTensor& tensor) {
  return ConstTensor(tensor.data(), tensor.shape(), tensor.dtype());
}

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_TENSOR_H_
