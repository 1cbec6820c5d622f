#include "sdk/tensorflow/tensorflow_api.h"

#include <dlfcn.h>
#include <pthread.h>

#include <utility>

namespace farandole::tensorflow {
namespace {

struct Symbol {
  const char* name;
  void* slot;
};

struct Loaded {
  TensorFlowApi api = {};
  const char* missing = nullptr;
};

Loaded Load() {
  Loaded loaded;
  TensorFlowApi& api = loaded.api;
#define FARANDOLE_SYMBOL(name) \
  Symbol { #name, &api.name }
  const Symbol symbols[] = {
      FARANDOLE_SYMBOL(TF_NewStatus),
      FARANDOLE_SYMBOL(TF_DeleteStatus),
      FARANDOLE_SYMBOL(TF_SetStatus),
      FARANDOLE_SYMBOL(TF_GetCode),
      FARANDOLE_SYMBOL(TF_Message),
      FARANDOLE_SYMBOL(TF_DeleteTensor),
      FARANDOLE_SYMBOL(TF_NumDims),
      FARANDOLE_SYMBOL(TF_Dim),
      FARANDOLE_SYMBOL(TF_TensorData),
      FARANDOLE_SYMBOL(TF_TensorByteSize),
      FARANDOLE_SYMBOL(TF_DataTypeSize),
      FARANDOLE_SYMBOL(TF_NewOpDefinitionBuilder),
      FARANDOLE_SYMBOL(TF_OpDefinitionBuilderAddAttr),
      FARANDOLE_SYMBOL(TF_OpDefinitionBuilderAddInput),
      FARANDOLE_SYMBOL(TF_OpDefinitionBuilderAddOutput),
      FARANDOLE_SYMBOL(TF_OpDefinitionBuilderSetIsStateful),
      FARANDOLE_SYMBOL(TF_OpDefinitionBuilderSetShapeInferenceFunction),
      FARANDOLE_SYMBOL(TF_RegisterOpDefinition),
      FARANDOLE_SYMBOL(TF_ShapeInferenceContextNumInputs),
      FARANDOLE_SYMBOL(TF_NewShapeHandle),
      FARANDOLE_SYMBOL(TF_DeleteShapeHandle),
      FARANDOLE_SYMBOL(TF_ShapeInferenceContextGetInput),
      FARANDOLE_SYMBOL(TF_ShapeInferenceContextSetOutput),
      FARANDOLE_SYMBOL(TF_ShapeInferenceContextSetUnknownShape),
      FARANDOLE_SYMBOL(TF_ShapeInferenceContextScalar),
      FARANDOLE_SYMBOL(TF_NewKernelBuilder),
      FARANDOLE_SYMBOL(TF_NewAsyncKernelBuilder),
      FARANDOLE_SYMBOL(TF_RegisterKernelBuilder),
      FARANDOLE_SYMBOL(TF_RunAsyncOpKernelDoneCallback),
      FARANDOLE_SYMBOL(TF_OpKernelConstruction_GetAttrSize),
      FARANDOLE_SYMBOL(TF_OpKernelConstruction_GetAttrString),
      FARANDOLE_SYMBOL(TF_OpKernelConstruction_GetAttrInt64),
      FARANDOLE_SYMBOL(TF_OpKernelConstruction_Failure),
      FARANDOLE_SYMBOL(TF_NumInputs),
      FARANDOLE_SYMBOL(TF_GetInput),
      FARANDOLE_SYMBOL(TF_InputDatatype),
      FARANDOLE_SYMBOL(TF_AllocateOutput),
      FARANDOLE_SYMBOL(TF_SetOutput),
      FARANDOLE_SYMBOL(TF_ForwardInputOrAllocateOutput),
      FARANDOLE_SYMBOL(TF_OpKernelContext_Failure),
  };
#undef FARANDOLE_SYMBOL
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_NOW | RTLD_NOLOAD);
  for (const Symbol& symbol : symbols) {
    void* const found = dlsym(library == nullptr ? RTLD_DEFAULT : library, symbol.name);
    if (found == nullptr && loaded.missing == nullptr) loaded.missing = symbol.name;
    *static_cast<void**>(symbol.slot) = found;
  }
  return loaded;
}

const Loaded& TheLoaded() {
  static const Loaded* loaded = new Loaded(Load());
  return *loaded;
}

// The addresses of this thread's stack.
std::pair<const char*, const char*> FindStack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {nullptr, nullptr};
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  return {static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes};
}

bool IsOnThisStack(const void* address) {
  thread_local const std::pair<const char*, const char*> stack = FindStack();
  return stack.first <= address && address < stack.second;
}

}  // namespace

const TensorFlowApi& Tf() { return TheLoaded().api; }
const char* MissingTensorFlowFunction() { return TheLoaded().missing; }

std::function<void()> KeepDone(TF_AsyncOpKernelDoneCallback* done) {
  if (IsOnThisStack(done)) return std::move(*reinterpret_cast<std::function<void()>*>(done));
  return [done] { Tf().TF_RunAsyncOpKernelDoneCallback(done); };
}

}  // namespace farandole::tensorflow
