#include "server/job/rules/agreement.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
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

template <bool (*same)(const Dims&, const Dims&)>
bool SameShapes(const v1::Ready& a, const v1::Ready& b) {
  return a.grouped_shapes_size() == b.grouped_shapes_size() && FirstUnequalShape(a, b, same) < 0;
}

template <bool (*same)(const Dims&, const Dims&), std::string (*show)(const Dims&)>
std::string ShowShapes(const v1::Ready& of, const v1::Ready& other) {
  if (of.grouped_shapes_size() != other.grouped_shapes_size()) return Count(of.grouped_shapes_size(), "grouped tensor");
  const int i = FirstUnequalShape(of, other, same);
  return absl::StrCat("shape ", show(of.grouped_shapes(i).dims()), " for grouped tensor ", i);
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
constexpr Field kDType = {
    [](const v1::Ready& a, const v1::Ready& b) { return a.dtype() == b.dtype(); },
    [](const v1::Ready& of, const v1::Ready&) { return absl::StrCat("dtype ", ShowDType(of.dtype())); }};
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
    [](const v1::Ready& a, const v1::Ready& b) { return a.device() == b.device(); },
    [](const v1::Ready& of, const v1::Ready&) { return absl::StrCat("device ", ShowDevice(of.device())); }};

// The requirements of an op. The device is in every row that moves elements, because it is in every signature.
struct Rule {
  v1::OpType op;
  // Dimensions that each tensor must have at least.
  int least_dims;
  bool has_root;
  std::vector<Field> fields;
};

const std::vector<Rule>& Rules() {
  static const auto* const rules = new std::vector<Rule>{
      {v1::OP_TYPE_ALLREDUCE, 0, false, {kDType, kReduceOp, kShape, kGroupedShapes, kPrescale, kPostscale, kDevice}},
      {v1::OP_TYPE_ALLGATHER, 1, false, {kDType, kShapeButFirst, kGroupedShapesButFirst, kDevice}},
      {v1::OP_TYPE_BROADCAST, 0, true, {kDType, kShape, kGroupedShapes, kRoot, kDevice}},
      {v1::OP_TYPE_BARRIER, 0, false, {}},
      {v1::OP_TYPE_ALLTOALL, 1, false, {kDType, kShapeButFirst, kGroupedShapesButFirst, kDevice}},
      {v1::OP_TYPE_REDUCESCATTER,
       1,
       false,
       {kDType, kReduceOp, kShape, kGroupedShapes, kPrescale, kPostscale, kDevice}},
      {v1::OP_TYPE_JOIN, 0, false, {}},
  };
  return *rules;
}

const Rule* RuleOf(v1::OpType op) {
  for (const Rule& rule : Rules()) {
    if (rule.op == op) return &rule;
  }
  return nullptr;
}

const Field* FirstUnequalField(const v1::Ready& a, const v1::Ready& b) {
  if (!kOp.same(a, b)) return &kOp;
  const Rule* rule = RuleOf(a.op());
  if (rule == nullptr) return nullptr;
  for (const Field& field : rule->fields) {
    if (!field.same(a, b)) return &field;
  }
  return nullptr;
}

std::string FaultOfShape(const Dims& dims, const Rule& rule) {
  if (dims.size() > kMostDims) return absl::StrCat("has ", dims.size(), " dimensions; ", kMostDims, " is the most");
  if (dims.size() < rule.least_dims) {
    return absl::StrCat("has shape ", ShowShape(dims), "; ", ShowOp(rule.op), " needs at least ",
                        Count(rule.least_dims, "dimension"));
  }
  for (const int64_t dim : dims) {
    if (dim < 0) return absl::StrCat("has shape ", ShowShape(dims), "; no dimension may be negative");
  }
  return "";
}

}  // namespace

std::string FaultOf(const v1::Ready& ready, size_t group_size) {
  const Rule* rule = RuleOf(ready.op());
  if (rule == nullptr) return absl::StrCat("has ", ShowOp(ready.op()), ", which this coordinator does not know");
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
  if (rule->has_root && ready.root() >= group_size) {
    return absl::StrCat("has root ", ready.root(), ", and the group has ", Count(group_size, "rank"));
  }
  if (ready.grouped_shapes_size() > kMostGroupedShapes) {
    return absl::StrCat("has ", ready.grouped_shapes_size(), " grouped tensors; ", kMostGroupedShapes, " is the most");
  }
  if (ready.grouped_shapes_size() == 0) return FaultOfShape(ready.shape(), *rule);
  if (!ready.shape().empty()) return absl::StrCat("has both shape ", ShowShape(ready.shape()), " and grouped shapes");
  for (const v1::Shape& shape : ready.grouped_shapes()) {
    std::string fault = FaultOfShape(shape.dims(), *rule);
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
