#ifndef FARANDOLE_SDK_MXNET_MXNET_API_H_
#define FARANDOLE_SDK_MXNET_MXNET_API_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

// MXNet's C interface (mxnet/c_api.h) as far as collectives need it, and the few of its C++ types that this interface
// passes on. The declarations are our own: MXNet is not there when this is built. 1.9.1 is MXNet's last release, so
// that they stay as they are.
namespace farandole::mxnet {

using NDArrayHandle = void*;

// mxnet::Context.
struct Context {
  int32_t device_type;  // 1: CPU
  int32_t device_id;
};

// mxnet::engine::CallbackOnComplete: an asynchronous operation gets its address, and copies it.
struct OnComplete {
  void (*callback)(void* engine, void* parameter, const std::runtime_error* error);
  void* engine;
  void* parameter;

  void operator()(const std::runtime_error* error) const { callback(engine, parameter, error); }
};

// mxnet::FnProperty::kCPUPrioritized: threads of the engine's that run nothing else begin those of higher priority
// first. (The engine runs one that is kAsync where it is pushed, or in the order of computations, whatever its
// priority.)
constexpr int kPrioritizedOperation = 3;

using AsyncFunction = void (*)(void* run_context, void* on_complete, void* parameter);

// The functions of the MXNet that this process has loaded.
struct MxnetApi {
  const char* (*MXGetLastError)();
  int (*MXShallowCopyNDArray)(NDArrayHandle array, NDArrayHandle* copy);
  int (*MXNDArrayFree)(NDArrayHandle array);
  int (*MXNDArrayGetData)(NDArrayHandle array, void** data);
  int (*MXNDArrayGetDType)(NDArrayHandle array, int* dtype);
  int (*MXNDArrayGetShapeEx)(NDArrayHandle array, int* ndim, const int** shape);
  int (*MXEnginePushAsyncND)(AsyncFunction function, void* parameter, void (*deleter)(void*), const Context* context,
                             NDArrayHandle* read, int read_count, NDArrayHandle* written, int written_count,
                             const int* property, int priority, const char* name, bool waits);
};

const MxnetApi& Mxnet();

// An array of MXNet's that we own.
struct FreeArray {
  void operator()(void* array) const { Mxnet().MXNDArrayFree(array); }
};
using OwnedArray = std::unique_ptr<void, FreeArray>;

// Identifies the memory of an array, and its variable in the engine: the same for all views of one array.
const void* MemoryOf(NDArrayHandle array);

// Within an operation that reads the array: one of the same elements in row-major order, which is a view of it, unless
// oneDNN has laid it out in another way.
OwnedArray InRowMajorOrder(NDArrayHandle array);
// Within an operation that writes the array: brings its memory into row-major order.
void BringIntoRowMajorOrder(NDArrayHandle array);

}  // namespace farandole::mxnet

extern "C" {

// Finds MXNet's functions in its library at `path`, which the process has loaded. NULL: done; else the reason, valid
// until the next call. Called once, before any operation is pushed.
__attribute__((visibility("default"))) const char* farandole_mxnet_find(const char* path);
}

#endif  // FARANDOLE_SDK_MXNET_MXNET_API_H_
