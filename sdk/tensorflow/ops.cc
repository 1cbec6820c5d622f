// The ops and kernels by which TensorFlow's programs call the worker library; TensorFlow registers them when it loads
// this library (tf.load_op_library).
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "sdk/adapter/completer.h"
#include "sdk/adapter/worker_library.h"
#include "sdk/tensorflow/call.h"
#include "sdk/tensorflow/number.h"
#include "sdk/tensorflow/tensorflow_api.h"

namespace farandole::tensorflow {
namespace {

int64_t IntAttribute(TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  int64_t value = 0;
  Tf().TF_OpKernelConstruction_GetAttrInt64(construction, name, &value, status);
  return value;
}

// TensorFlow's own float attributes have 32 bits.
double DoubleAttribute(TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  const int64_t bits = IntAttribute(construction, name, status);
  double value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

std::string StringAttribute(TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  int32_t list_size = 0, bytes = 0;
  Tf().TF_OpKernelConstruction_GetAttrSize(construction, name, &list_size, &bytes, status);
  std::string value(bytes > 0 ? static_cast<size_t>(bytes) : 0, '\0');
  if (!value.empty()) {
    Tf().TF_OpKernelConstruction_GetAttrString(construction, name, value.data(), value.size(), status);
  }
  return value;
}

template <Op op, bool returns_failure = false>
void* Create(TF_OpKernelConstruction* construction) {
  TF_Status* const status = Tf().TF_NewStatus();
  auto attributes = std::make_unique<NodeTerms>();
  attributes->op = op;
  attributes->returns_failure = returns_failure;
  if (returns_failure) attributes->has_references = IntAttribute(construction, "has_references", status) != 0;
  if (op != Op::kJoin) {
    attributes->name = StringAttribute(construction, "tensor_name", status);
    attributes->group = static_cast<int32_t>(IntAttribute(construction, "process_set_id", status));
  }
  if (op == Op::kAllreduce || op == Op::kReducescatter) {
    attributes->reduce_op = static_cast<int32_t>(IntAttribute(construction, "reduce_op", status));
    attributes->prescale = DoubleAttribute(construction, "prescale_bits", status);
    attributes->postscale = DoubleAttribute(construction, "postscale_bits", status);
  }
  if (adapter::HasRoot(op)) attributes->root = static_cast<int32_t>(IntAttribute(construction, "root_rank", status));
  attributes->waits = IntAttribute(construction, "waits", status) != 0;
  if (Tf().TF_GetCode(status) != 0) Tf().TF_OpKernelConstruction_Failure(construction, status);
  Tf().TF_DeleteStatus(status);
  return attributes.release();
}

void Delete(void* attributes) { delete static_cast<NodeTerms*>(attributes); }

void Compute(void* attributes, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  auto call = std::make_unique<Call>(static_cast<const NodeTerms*>(attributes), context, KeepDone(done));
  if (call->Prepare()) {
    adapter::Completer::Get().Run(std::move(call));
  } else {
    call->Deliver();
  }
}

struct NumberAttributes {
  int64_t which = 0;
  int32_t group = 0;
};

void* CreateNumber(TF_OpKernelConstruction* construction) {
  TF_Status* const status = Tf().TF_NewStatus();
  auto attributes = std::make_unique<NumberAttributes>();
  attributes->which = IntAttribute(construction, "which", status);
  attributes->group = static_cast<int32_t>(IntAttribute(construction, "process_set_id", status));
  if (Tf().TF_GetCode(status) != 0) Tf().TF_OpKernelConstruction_Failure(construction, status);
  Tf().TF_DeleteStatus(status);
  return attributes.release();
}

void DeleteNumber(void* attributes) { delete static_cast<NumberAttributes*>(attributes); }

void ComputeNumber(void* attributes, TF_OpKernelContext* context) {
  TF_Status* const status = Tf().TF_NewStatus();
  const auto& given = *static_cast<const NumberAttributes*>(attributes);
  const int number = ReadNumber(given.which, given.group);
  if (number < 0) {
    Tf().TF_SetStatus(status, TensorFlowCodeOf(-number), NumberError());
    Tf().TF_OpKernelContext_Failure(context, status);
  } else {
    constexpr int kInt32 = 3;
    TF_Tensor* const output = Tf().TF_AllocateOutput(context, 0, kInt32, nullptr, 0, sizeof(int32_t), status);
    if (Tf().TF_GetCode(status) == 0) {
      *static_cast<int32_t*>(Tf().TF_TensorData(output)) = number;
      Tf().TF_DeleteTensor(output);
    } else {
      Tf().TF_OpKernelContext_Failure(context, status);
    }
  }
  Tf().TF_DeleteStatus(status);
}

void* CreateNothing(TF_OpKernelConstruction*) { return nullptr; }
void DeleteNothing(void*) {}

// Fails as a broadcast into a variable's memory has: its result tells TensorFlow's code, and then why.
void ComputeFail(void*, TF_OpKernelContext* context) {
  TF_Status* const status = Tf().TF_NewStatus();
  TF_Tensor* failure = nullptr;
  Tf().TF_GetInput(context, 0, &failure, status);
  if (Tf().TF_GetCode(status) == 0) {
    const std::string told(static_cast<const char*>(Tf().TF_TensorData(failure)), Tf().TF_TensorByteSize(failure));
    if (!told.empty()) Tf().TF_SetStatus(status, told[0], told.c_str() + 1);
    Tf().TF_DeleteTensor(failure);
  }
  if (Tf().TF_GetCode(status) != 0) Tf().TF_OpKernelContext_Failure(context, status);
  Tf().TF_DeleteStatus(status);
}

// The outputs have the inputs' shapes.
void SameShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const int64_t inputs = Tf().TF_ShapeInferenceContextNumInputs(context);
  for (int i = 0; i < inputs && Tf().TF_GetCode(status) == 0; ++i) {
    TF_ShapeHandle* const shape = Tf().TF_NewShapeHandle();
    Tf().TF_ShapeInferenceContextGetInput(context, i, shape, status);
    if (Tf().TF_GetCode(status) == 0) Tf().TF_ShapeInferenceContextSetOutput(context, i, shape, status);
    Tf().TF_DeleteShapeHandle(shape);
  }
}

// Python sets their known dimensions.
void UnknownShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  Tf().TF_ShapeInferenceContextSetUnknownShape(context, status);
}

void ScalarShape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* const shape = Tf().TF_ShapeInferenceContextScalar(context);
  Tf().TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  Tf().TF_DeleteShapeHandle(shape);
}

void NoShapes(TF_ShapeInferenceContext*, TF_Status*) {}

struct Definition {
  const char* op;
  void (*shapes)(TF_ShapeInferenceContext*, TF_Status*);
  std::initializer_list<const char*> inputs;
  std::initializer_list<const char*> outputs;
  std::initializer_list<const char*> attributes;
  bool has_types;
  void* (*create)(TF_OpKernelConstruction*);
};

bool Report(const char* op, TF_Status* status) {
  const bool is_ok = Tf().TF_GetCode(status) == 0;
  if (!is_ok) fprintf(stderr, "farandole: TensorFlow does not take the op %s: %s\n", op, Tf().TF_Message(status));
  Tf().TF_SetStatus(status, 0, "");
  return is_ok;
}

void RegisterOp(const Definition& definition, TF_Status* status) {
  // Its builder ends with the registration.
  TF_OpDefinitionBuilder* const builder = Tf().TF_NewOpDefinitionBuilder(definition.op);
  for (const char* spec : definition.attributes) Tf().TF_OpDefinitionBuilderAddAttr(builder, spec);
  // Of any type, which the kernel checks: TensorFlow's specifications know no word for 8-bit floats.
  if (definition.has_types) Tf().TF_OpDefinitionBuilderAddAttr(builder, "T: type");
  for (const char* spec : definition.inputs) Tf().TF_OpDefinitionBuilderAddInput(builder, spec);
  for (const char* spec : definition.outputs) Tf().TF_OpDefinitionBuilderAddOutput(builder, spec);
  // Neither folded, nor merged, nor dropped.
  Tf().TF_OpDefinitionBuilderSetIsStateful(builder, true);
  Tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, definition.shapes);
  Tf().TF_RegisterOpDefinition(builder, status);
}

// An op whose kernel does all its work at once, and communicates nothing.
void RegisterPlain(const Definition& definition, void (*compute)(void*, TF_OpKernelContext*), void (*drop)(void*),
                   TF_Status* status) {
  RegisterOp(definition, status);
  if (!Report(definition.op, status)) return;
  Tf().TF_RegisterKernelBuilder(
      definition.op, Tf().TF_NewKernelBuilder(definition.op, "CPU", definition.create, compute, drop), status);
  Report(definition.op, status);
}

constexpr Definition kDefinitions[] = {
    {"FarandoleAllreduce",
     SameShapes,
     {"tensors: N * T"},
     {"reduced: N * T"},
     {"N: int >= 1", "tensor_name: string = ''", "reduce_op: int", "prescale_bits: int = 4607182418800017408",
      "postscale_bits: int = 4607182418800017408", "process_set_id: int = 0", "waits: int = 1"},
     true,
     Create<Op::kAllreduce>},
    {"FarandoleAllgather",
     UnknownShapes,
     {"tensors: N * T"},
     {"gathered: N * T", "rows: int64"},
     {"N: int >= 1", "tensor_name: string", "process_set_id: int", "waits: int"},
     true,
     Create<Op::kAllgather>},
    {"FarandoleBroadcast",
     SameShapes,
     {"tensors: N * T"},
     {"received: N * T"},
     {"N: int >= 1", "tensor_name: string", "root_rank: int", "process_set_id: int", "waits: int"},
     true,
     Create<Op::kBroadcast>},
    // The last output is empty, or why it has failed: for FarandoleFail, when the variables have their memory back.
    {"FarandoleBroadcastInPlace",
     UnknownShapes,
     {"tensors: N * T"},
     {"received: N * T", "failure: uint8"},
     {"N: int >= 1", "tensor_name: string", "root_rank: int", "process_set_id: int", "waits: int",
      "has_references: int"},
     true,
     Create<Op::kBroadcast, true>},
    {"FarandoleReducescatter",
     UnknownShapes,
     {"tensors: N * T"},
     {"reduced: N * T"},
     {"N: int >= 1", "tensor_name: string", "reduce_op: int", "prescale_bits: int", "postscale_bits: int",
      "process_set_id: int", "waits: int"},
     true,
     Create<Op::kReducescatter>},
    {"FarandoleAlltoall",
     UnknownShapes,
     {"tensor: T", "splits: int64"},
     {"received: T", "rows: int64"},
     {"tensor_name: string", "process_set_id: int", "waits: int"},
     true,
     Create<Op::kAlltoall>},
    {"FarandoleGather",
     UnknownShapes,
     {"tensor: T"},
     {"gathered: T", "rows: int64"},
     {"tensor_name: string", "root_rank: int", "process_set_id: int", "waits: int"},
     true,
     Create<Op::kGather>},
    {"FarandoleScatter",
     UnknownShapes,
     {"tensor: T"},
     {"received: T", "rows: int64"},
     {"tensor_name: string", "root_rank: int", "process_set_id: int", "waits: int"},
     true,
     Create<Op::kScatter>},
    {"FarandoleJoin", ScalarShape, {}, {"last_rank: int32"}, {"waits: int"}, false, Create<Op::kJoin>},
    {"FarandoleBarrier",
     NoShapes,
     {},
     {},
     {"tensor_name: string", "process_set_id: int", "waits: int"},
     false,
     Create<Op::kBarrier>},
};

void Register() {
  TF_Status* const status = Tf().TF_NewStatus();
  for (const Definition& definition : kDefinitions) {
    RegisterOp(definition, status);
    if (!Report(definition.op, status)) continue;
    Tf().TF_RegisterKernelBuilder(
        definition.op, Tf().TF_NewAsyncKernelBuilder(definition.op, "CPU", definition.create, Compute, Delete), status);
    Report(definition.op, status);
  }
  RegisterPlain({"FarandoleNumber",
                 ScalarShape,
                 {},
                 {"number: int32"},
                 {"which: int", "process_set_id: int"},
                 false,
                 CreateNumber},
                ComputeNumber, DeleteNumber, status);
  RegisterPlain({"FarandoleFail", NoShapes, {"failure: uint8"}, {}, {}, false, CreateNothing}, ComputeFail,
                DeleteNothing, status);
  Tf().TF_DeleteStatus(status);
}

__attribute__((constructor)) void OnLoad() {
  if (MissingTensorFlowFunction() == nullptr) Register();
}

}  // namespace
}  // namespace farandole::tensorflow

extern "C" {

// NULL: the ops are registered. Else the name of the function of TensorFlow's C interface that is not there.
FARANDOLE_EXPORT const char* farandole_tensorflow_missing() {
  return farandole::tensorflow::MissingTensorFlowFunction();
}
}
