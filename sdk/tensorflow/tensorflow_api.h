#ifndef FARANDOLE_SDK_TENSORFLOW_TENSORFLOW_API_H_
#define FARANDOLE_SDK_TENSORFLOW_TENSORFLOW_API_H_

#include <cstddef>
#include <cstdint>
#include <functional>

// TensorFlow's C interface (tensorflow/c/kernels.h, ops.h, tf_tensor.h and tf_status.h), as far as these ops need it.
// The declarations are our own: TensorFlow is not there when this is built, and its ops.h is no valid C++ either.
extern "C" {
struct TF_AsyncOpKernelDoneCallback;
struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;
struct TF_Status;
struct TF_Tensor;
}

namespace farandole::tensorflow {

// The functions of the TensorFlow that this process has loaded.
struct TensorFlowApi {
  TF_Status* (*TF_NewStatus)();
  void (*TF_DeleteStatus)(TF_Status*);
  void (*TF_SetStatus)(TF_Status*, int code, const char* message);
  int (*TF_GetCode)(const TF_Status*);
  const char* (*TF_Message)(const TF_Status*);

  void (*TF_DeleteTensor)(TF_Tensor*);
  int (*TF_NumDims)(const TF_Tensor*);
  int64_t (*TF_Dim)(const TF_Tensor*, int index);
  void* (*TF_TensorData)(const TF_Tensor*);
  size_t (*TF_TensorByteSize)(const TF_Tensor*);
  size_t (*TF_DataTypeSize)(int dtype);

  TF_OpDefinitionBuilder* (*TF_NewOpDefinitionBuilder)(const char* name);
  void (*TF_OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder*, const char* spec);
  void (*TF_OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*TF_OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*TF_OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder*, bool is_stateful);
  void (*TF_OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder*,
                                                          void (*)(TF_ShapeInferenceContext*, TF_Status*));
  void (*TF_RegisterOpDefinition)(TF_OpDefinitionBuilder*, TF_Status*);
  int64_t (*TF_ShapeInferenceContextNumInputs)(TF_ShapeInferenceContext*);
  TF_ShapeHandle* (*TF_NewShapeHandle)();
  void (*TF_DeleteShapeHandle)(TF_ShapeHandle*);
  void (*TF_ShapeInferenceContextGetInput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*, TF_Status*);
  void (*TF_ShapeInferenceContextSetOutput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*, TF_Status*);
  void (*TF_ShapeInferenceContextSetUnknownShape)(TF_ShapeInferenceContext*, TF_Status*);
  TF_ShapeHandle* (*TF_ShapeInferenceContextScalar)(TF_ShapeInferenceContext*);

  TF_KernelBuilder* (*TF_NewKernelBuilder)(const char* op, const char* device,
                                           void* (*create)(TF_OpKernelConstruction*),
                                           void (*compute)(void*, TF_OpKernelContext*), void (*drop)(void*));
  TF_KernelBuilder* (*TF_NewAsyncKernelBuilder)(
      const char* op, const char* device, void* (*create)(TF_OpKernelConstruction*),
      void (*compute)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*), void (*drop)(void*));
  void (*TF_RegisterKernelBuilder)(const char* name, TF_KernelBuilder*, TF_Status*);
  void (*TF_RunAsyncOpKernelDoneCallback)(TF_AsyncOpKernelDoneCallback*);
  void (*TF_OpKernelConstruction_GetAttrSize)(TF_OpKernelConstruction*, const char* name, int32_t* list_size,
                                              int32_t* total_size, TF_Status*);
  void (*TF_OpKernelConstruction_GetAttrString)(TF_OpKernelConstruction*, const char* name, char* value,
                                                size_t max_length, TF_Status*);
  void (*TF_OpKernelConstruction_GetAttrInt64)(TF_OpKernelConstruction*, const char* name, int64_t* value, TF_Status*);
  void (*TF_OpKernelConstruction_Failure)(TF_OpKernelConstruction*, TF_Status*);
  int (*TF_NumInputs)(TF_OpKernelContext*);
  void (*TF_GetInput)(TF_OpKernelContext*, int index, TF_Tensor**, TF_Status*);
  int (*TF_InputDatatype)(TF_OpKernelContext*, int index);
  TF_Tensor* (*TF_AllocateOutput)(TF_OpKernelContext*, int index, int dtype, const int64_t* dims, int ndim,
                                  size_t bytes, TF_Status*);
  void (*TF_SetOutput)(TF_OpKernelContext*, int index, const TF_Tensor*, TF_Status*);
  TF_Tensor* (*TF_ForwardInputOrAllocateOutput)(TF_OpKernelContext*, const int* inputs, int count, int output,
                                                const int64_t* dims, int ndim, int* forwarded, TF_Status*);
  void (*TF_OpKernelContext_Failure)(TF_OpKernelContext*, TF_Status*);
};

// Found when this library was loaded, which TensorFlow does.
const TensorFlowApi& Tf();
// Null where all functions were found; else the name of the first that this TensorFlow lacks.
const char* MissingTensorFlowFunction();

// The function behind the done callback of an asynchronous kernel. TensorFlow (2.13 to 2.21) passes the address of a
// std::function on its caller's stack, which is gone when the kernel has returned: this moves it out. If the address is
// not on this thread's stack, the callback lives long enough, and TensorFlow's own function runs it.
std::function<void()> KeepDone(TF_AsyncOpKernelDoneCallback* done);

}  // namespace farandole::tensorflow

#endif  // FARANDOLE_SDK_TENSORFLOW_TENSORFLOW_API_H_
