#ifndef FARANDOLE_WORKER_DEVICE_CUDA_DRIVER_H_
#define FARANDOLE_WORKER_DEVICE_CUDA_DRIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// As cuda.h has them, which is needed to check this file (worker/device/declarations_check.cc), and not to build it.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
struct CUmod_st;
struct CUfunc_st;

namespace farandole {

using CudaContext = CUctx_st*;
using CudaStream = CUstream_st*;
using CudaEvent = CUevent_st*;
using CudaPool = CUmemPoolHandle_st*;
using CudaModule = CUmod_st*;
using CudaFunction = CUfunc_st*;
// An address in a GPU's memory, which the host does not read.
using CudaAddress = unsigned long long;  // NOLINT(runtime/int): cuda.h's

// CUuuid.
using CudaUuid = std::array<uint8_t, 16>;

// CUresult.
inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaNotReady = 600;
// CUstream_flags, CUevent_flags, CUmemPool_attribute.
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDefault = 0;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr int kCudaPoolReleaseThreshold = 4;
// CUdevice_attribute.
inline constexpr int kCudaCapabilityMajor = 75;
inline constexpr int kCudaCapabilityMinor = 76;
// CUstreamCaptureMode, CUstreamCaptureStatus.
inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr int kCudaCapturesNothing = 0;
inline constexpr int kCudaCaptureHasFailed = 2;

// The functions of CUDA's driver that are used, each named as there. The driver is on every machine that has a GPU, and
// its functions work in the context that the framework uses, so that nothing of the CUDA toolkit is needed.
struct CudaDriver {
  int (*cuInit)(unsigned flags);
  int (*cuGetErrorString)(int error, const char** words);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDeviceGetUuid)(CudaUuid* uuid, int device);
  int (*cuDevicePrimaryCtxRetain)(CudaContext* context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuDeviceGetDefaultMemPool)(CudaPool* pool, int device);
  int (*cuMemPoolSetAttribute)(CudaPool pool, int attribute, void* value);
  int (*cuCtxPushCurrent)(CudaContext context);
  int (*cuCtxPopCurrent)(CudaContext* context);
  int (*cuCtxGetStreamPriorityRange)(int* least, int* greatest);
  int (*cuStreamCreateWithPriority)(CudaStream* stream, unsigned flags, int priority);
  int (*cuStreamDestroy)(CudaStream stream);
  int (*cuStreamIsCapturing)(CudaStream stream, int* status);
  int (*cuThreadExchangeStreamCaptureMode)(int* mode);
  int (*cuStreamWaitEvent)(CudaStream stream, CudaEvent event, unsigned flags);
  int (*cuEventCreate)(CudaEvent* event, unsigned flags);
  int (*cuEventDestroy)(CudaEvent event);
  int (*cuEventRecord)(CudaEvent event, CudaStream stream);
  int (*cuEventQuery)(CudaEvent event);
  int (*cuEventSynchronize)(CudaEvent event);
  int (*cuEventElapsedTime)(float* milliseconds, CudaEvent from, CudaEvent to);
  int (*cuMemAllocAsync)(CudaAddress* address, size_t bytes, CudaStream stream);
  int (*cuMemFreeAsync)(CudaAddress address, CudaStream stream);
  int (*cuMemcpyDtoDAsync)(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream);
  int (*cuMemsetD8Async)(CudaAddress to, unsigned char value, size_t bytes, CudaStream stream);
  int (*cuModuleLoadData)(CudaModule* module, const void* image);
  int (*cuModuleUnload)(CudaModule module);
  int (*cuModuleGetFunction)(CudaFunction* function, CudaModule module, const char* name);
  int (*cuLaunchKernel)(CudaFunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                        unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                        CudaStream stream, void** parameters, void** extra);

  // OK, or INTERNAL with the driver's words: "cuEventRecord: invalid device context (error 201)". `call` is the
  // function's name.
  absl::Status Check(int result, absl::string_view call) const;

  // The driver in the machine's libcuda.so.1, which stays loaded; the same at each call. No GPU is touched.
  //   UNAVAILABLE: there is none, or it is too old; the text says why.
  static absl::StatusOr<const CudaDriver*> Find();
  // As Find, ready for use. A process that has done so must not fork workers.
  //   UNAVAILABLE: also where there is no GPU
  static absl::StatusOr<const CudaDriver*> Load();
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_CUDA_DRIVER_H_
