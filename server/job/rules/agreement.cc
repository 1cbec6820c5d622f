#include "server/job/rules/agreement.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/op_text.h"
#include "base/op_type.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr int kMostDims = 32;
constexpr int kMostGroupedShapes = 65536;

// One thing that ranks may disagree about.
struct Field {
  bool (*same)(const v1::Ready& a, const v1::Ready& b);
  // How `of` shows the field beside `other`, with the noun: "shape [4,8]".
  std::string (*show)(const v1::Ready& of, const v1::Ready& other);
};

using Dims = google::protobuf::RepeatedField<int64_t>;

bool SameDims(const Dims& a, const Dims& b) { return absl::c_equal(a, b); }

bool SameDimsButFirst(const Dims& a, const Dims& b) {
  return a.size() == b.size() &&
         (a.empty() || absl::c_equal(absl::MakeSpan(a).subspan(1), absl::MakeSpan(b).subspan(1)));
}

int FirstUnequalShape(const v1::Ready& a, const v1::Ready& b, bool (*same)(const Dims&, const Dims&)) {
  for (int i = 0; i < a.grouped_shapes_size() && i < b.grouped_shapes_size(); ++i) {
    if (!same(a.grouped_shapes(i).dims(), b.grouped_shapes(i).dims())) return i;
  }
  return -1;
}

int TensorsOf(const v1::Ready& ready) {
  if (ready.is_empty_group()) return 0;
  return std::max(ready.grouped_shapes_size(), 1);
}

// The first tensor of which `get` differs; -1: there is none.
template <typename Get>
int FirstUnequalTensor(const v1::Ready& a, const v1::Ready& b, const Get& get) {
  for (int i = 0; i < a.grouped_shapes_size() && i < b.grouped_shapes_size(); ++i) {
    if (get(a.grouped_shapes(i)) != get(b.grouped_shapes(i))) return i;
  }
  return -1;
}

int FirstUnequalDType(const v1::Ready& a, const v1::Ready& b) {
  return FirstUnequalTensor(a, b, [](const v1::Shape& shape) { return shape.dtype(); });
}

int FirstUnequalDevice(const v1::Ready& a, const v1::Ready& b) {
  return FirstUnequalTensor(a, b, [](const v1::Shape& shape) { return shape.device(); });
}

std::string ForTensor(int i) { return absl::StrCat(" for grouped tensor ", i); }

std::string ShowDTypes(const v1::Ready& of, const v1::Ready& other) {
  const int i = FirstUnequalDType(of, other);
  if (i < 0) return absl::StrCat("dtype ", ShowDType(of.dtype()));
  return absl::StrCat("dtype ", ShowDType(of.grouped_shapes(i).dtype()), ForTensor(i));
}

std::string ShowDevices(const v1::Ready& of, const v1::Ready& other) {
  const int i = FirstUnequalDevice(of, other);
  if (i < 0) return absl::StrCat("device ", ShowDevice(of.device()));
  return absl::StrCat("device ", ShowDevice(of.grouped_shapes(i).device()), ForTensor(i));
}

template <bool (*same)(const Dims&, const Dims&)>
bool SameShapes(const v1::Ready& a, const v1::Ready& b) {
  return FirstUnequalShape(a, b, same) < 0;
}

template <bool (*same)(const Dims&, const Dims&), std::string (*show)(const Dims&)>
std::string ShowShapes(const v1::Ready& of, const v1::Ready& other) {
  const int i = FirstUnequalShape(of, other, same);
  return absl::StrCat("shape ", show(of.grouped_shapes(i).dims()), ForTensor(i));
}

std::string ShowDims(const Dims& dims) { return ShowShape(dims); }

std::string ShowWholeShape(const v1::Ready& of, const v1::Ready&) {
  return absl::StrCat("shape ", ShowDims(of.shape()));
}

// "[*,8]": the first dimension is each rank's own.
std::string ShowDimsButFirst(const Dims& dims) {
  if (dims.size() < 2) return dims.empty() ? "[]" : "[*]";
  return absl::StrCat("[*,", ShowShape(absl::MakeSpan(dims).subspan(1)).substr(1));
}

std::string ShowShapeButFirst(const v1::Ready& of, const v1::Ready&) {
  return absl::StrCat("shape ", ShowDimsButFirst(of.shape()));
}

// Enough digits to tell the value from the other rank's.
std::string ShowScale(double of, double other) {
  std::string shown = absl::StrCat(of);
  return of != other && shown == absl::StrCat(other) ? absl::StrFormat("%.17g", of) : shown;
}

constexpr Field kOp = {[](const v1::Ready& a, const v1::Ready& b) { return a.op() == b.op(); },
                       [](const v1::Ready& of, const v1::Ready&) { return absl::StrCat("op ", ShowOp(of.op())); }};
constexpr Field kTensors = {[](const v1::Ready& a, const v1::Ready& b) { return TensorsOf(a) == TensorsOf(b); },
                            [](const v1::Ready& of, const v1::Ready&) {
                              return Count(static_cast<uint64_t>(TensorsOf(of)), "grouped tensor");
                            }};
constexpr Field kDType = {
    [](const v1::Ready& a, const v1::Ready& b) { return a.dtype() == b.dtype() && FirstUnequalDType(a, b) < 0; },
    ShowDTypes};
constexpr Field kReduceOp = {
    [](const v1::Ready& a, const v1::Ready& b) { return a.reduce_op() == b.reduce_op(); },
    [](const v1::Ready& of, const v1::Ready&) { return absl::StrCat("reduce op ", ShowReduceOp(of.reduce_op())); }};
constexpr Field kShape = {[](const v1::Ready& a, const v1::Ready& b) { return SameDims(a.shape(), b.shape()); },
                          ShowWholeShape};
constexpr Field kShapeButFirst = {
    [](const v1::Ready& a, const v1::Ready& b) { return SameDimsButFirst(a.shape(), b.shape()); }, ShowShapeButFirst};
constexpr Field kGroupedShapes = {SameShapes<SameDims>, ShowShapes<SameDims, ShowDims>};
constexpr Field kGroupedShapesButFirst = {SameShapes<SameDimsButFirst>, ShowShapes<SameDimsButFirst, ShowDimsButFirst>};
constexpr Field kRoot = {[](const v1::Ready& a, const v1::Ready& b) { return a.root() == b.root(); },
                         [](const v1::Ready& of, const v1::Ready&) { return absl::StrCat("root ", of.root()); }};
constexpr Field kPrescale = {[](const v1::Ready& a, const v1::Ready& b) { return a.prescale() == b.prescale(); },
                             [](const v1::Ready& of, const v1::Ready& other) {
                               return absl::StrCat("prescale ", ShowScale(of.prescale(), other.prescale()));
                             }};
constexpr Field kPostscale = {[](const v1::Ready& a, const v1::Ready& b) { return a.postscale() == b.postscale(); },
                              [](const v1::Ready& of, const v1::Ready& other) {
                                return absl::StrCat("postscale ", ShowScale(of.postscale(), other.postscale()));
                              }};
constexpr Field kDevice = {
    [](const v1::Ready& a, const v1::Ready& b) { return a.device() == b.device() && FirstUnequalDevice(a, b) < 0; },
    ShowDevices};

// The fields that the ranks' statements of an op must have in common, in the order in which differences are reported.
// The device is in every list of an op that moves elements, because it is in every signature.
std::vector<Field> MakeFields(const OpTraits& traits) {
  std::vector<Field> fields = {kOp};
  if (traits.tensors == OpTraits::Tensors::kNone) return fields;
  fields.insert(fields.end(), {kTensors, kDType});
  if (traits.reduces) fields.push_back(kReduceOp);
  fields.push_back(traits.has_own_rows ? kShapeButFirst : kShape);
  fields.push_back(traits.has_own_rows ? kGroupedShapesButFirst : kGroupedShapes);
  if (traits.has_root) fields.push_back(kRoot);
  if (traits.reduces) fields.insert(fields.end(), {kPrescale, kPostscale});
  fields.push_back(kDevice);
  return fields;
}

// Null: no op has this number.
const OpTraits* FindTraits(v1::OpType op) {
  return op >= 0 && op < kOpTypeCount ? &TraitsOf(static_cast<OpType>(op)) : nullptr;
}

// By the ops' numbers.
const std::vector<std::vector<Field>>& Fields() {
  static const auto* const fields = [] {
    auto* made = new std::vector<std::vector<Field>>;
    for (const OpTraits& traits : kOpTraits) made->push_back(MakeFields(traits));
    return made;
  }();
  return *fields;
}

// Null: they agree. Of ops without a row only the op matters.
const Field* FirstUnequalField(const v1::Ready& a, const v1::Ready& b) {
  const int op = FindTraits(a.op()) == nullptr ? static_cast<int>(OpType::kBarrier) : a.op();
  for (const Field& field : Fields()[op]) {
    if (!field.same(a, b)) return &field;
  }
  return nullptr;
}

std::string FaultOfShape(const Dims& dims, const OpTraits& traits) {
  if (dims.size() > kMostDims) return absl::StrCat("has ", dims.size(), " dimensions; ", kMostDims, " is the most");
  if (dims.empty() && traits.rows != OpTraits::Rows::kNone)
    return absl::StrCat("has shape ", ShowShape(dims), "; ", traits.name, " needs at least 1 dimension");
  for (const int64_t dim : dims) {
    if (dim < 0) return absl::StrCat("has shape ", ShowShape(dims), "; no dimension may be negative");
  }
  return "";
}

}  // namespace

std::string FaultOf(const v1::Ready& ready, size_t group_size) {
  const OpTraits* traits = FindTraits(ready.op());
  if (traits == nullptr) return absl::StrCat("has ", ShowOp(ready.op()), ", which this coordinator does not know");
  if (!v1::DType_IsValid(ready.dtype()))
    return absl::StrCat("has ", ShowDType(ready.dtype()), ", which this coordinator does not know");
  if (!v1::ReduceOp_IsValid(ready.reduce_op())) {
    return absl::StrCat("has ", ShowReduceOp(ready.reduce_op()), ", which this coordinator does not know");
  }
  if (!v1::DeviceKind_IsValid(ready.device())) {
    return absl::StrCat("has ", ShowDevice(ready.device()), ", which this coordinator does not know");
  }
  if (!std::isfinite(ready.prescale())) return absl::StrCat("has prescale ", ready.prescale(), ", which is not finite");
  if (!std::isfinite(ready.postscale()))
    return absl::StrCat("has postscale ", ready.postscale(), ", which is not finite");
  if (traits->has_root && ready.root() >= group_size) {
    return absl::StrCat("has root ", ready.root(), ", and the group has ", Count(group_size, "rank"));
  }
  if (ready.grouped_shapes_size() > kMostGroupedShapes) {
    return absl::StrCat("has ", ready.grouped_shapes_size(), " grouped tensors; ", kMostGroupedShapes, " is the most");
  }
  if (ready.grouped_shapes_size() == 0) return ready.is_empty_group() ? "" : FaultOfShape(ready.shape(), *traits);
  if (!ready.shape().empty()) return absl::StrCat("has both shape ", ShowShape(ready.shape()), " and grouped shapes");
  for (const v1::Shape& shape : ready.grouped_shapes()) {
    std::string fault = FaultOfShape(shape.dims(), *traits);
    if (!fault.empty()) return fault;
  }
  return "";
}

bool Agree(const v1::Ready& a, const v1::Ready& b) { return FirstUnequalField(a, b) == nullptr; }

std::string Disagreement(uint32_t rank_a, const v1::Ready& a, uint32_t rank_b, const v1::Ready& b) {
  const Field* field = FirstUnequalField(a, b);
  if (field == nullptr) return "";
  return absl::StrCat("rank ", rank_a, " has ", field->show(a, b), ", rank ", rank_b, " has ", field->show(b, a));
}

}  // namespace farandole
