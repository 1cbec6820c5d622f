// Holds cuda_driver.h and nccl_library.h against CUDA's and NCCL's own headers, which nothing else includes: compiled
// by tests/integration/test_gpu_declarations.py where those are, and linked into nothing.
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

// cuda.h has these names stand for those with a version.
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuMemcpyDtoDAsync

#include "worker/device/cuda_driver.h"
#include "worker/device/nccl_library.h"

namespace farandole {
namespace {

// Enums of the headers are ints here, and the two structures have names of their own.
template <typename Theirs>
struct Ours {
  using type = std::conditional_t<std::is_enum_v<Theirs>, int, Theirs>;
};
template <>
struct Ours<ncclUniqueId> {
  using type = NcclUniqueId;
};
template <>
struct Ours<ncclConfig_t*> {
  using type = NcclConfig*;
};
template <>
struct Ours<CUuuid*> {
  using type = CudaUuid*;
};
template <typename Theirs>
struct Ours<Theirs*> {
  using type = std::conditional_t<std::is_enum_v<Theirs>, int*, Theirs*>;
};

template <typename Result, typename... Arguments>
constexpr bool Fit(Result (*)(Arguments...), typename Ours<Result>::type (*)(typename Ours<Arguments>::type...)) {
  return true;
}

#define CHECK_CUDA(name) static_assert(Fit(decltype(&::name){}, decltype(CudaDriver::name){}), #name)
CHECK_CUDA(cuInit);
CHECK_CUDA(cuGetErrorString);
CHECK_CUDA(cuDeviceGetCount);
CHECK_CUDA(cuDeviceGet);
CHECK_CUDA(cuDeviceGetAttribute);
CHECK_CUDA(cuDevicePrimaryCtxRetain);
CHECK_CUDA(cuDeviceGetDefaultMemPool);
CHECK_CUDA(cuMemPoolSetAttribute);
CHECK_CUDA(cuCtxGetStreamPriorityRange);
CHECK_CUDA(cuStreamCreateWithPriority);
CHECK_CUDA(cuStreamIsCapturing);
CHECK_CUDA(cuThreadExchangeStreamCaptureMode);
CHECK_CUDA(cuStreamWaitEvent);
CHECK_CUDA(cuEventCreate);
CHECK_CUDA(cuEventRecord);
CHECK_CUDA(cuEventQuery);
CHECK_CUDA(cuEventSynchronize);
CHECK_CUDA(cuMemAllocAsync);
CHECK_CUDA(cuMemFreeAsync);
CHECK_CUDA(cuMemsetD8Async);
CHECK_CUDA(cuModuleLoadData);
CHECK_CUDA(cuModuleUnload);
CHECK_CUDA(cuModuleGetFunction);
CHECK_CUDA(cuLaunchKernel);
#define CHECK_VERSIONED(name, version) \
  static_assert(Fit(decltype(&::name##_##version){}, decltype(CudaDriver::name){}), #name)
CHECK_VERSIONED(cuDeviceGetUuid, v2);
static_assert(sizeof(CudaUuid) == sizeof(CUuuid), "CUuuid");
CHECK_VERSIONED(cuDevicePrimaryCtxRelease, v2);
CHECK_VERSIONED(cuCtxPushCurrent, v2);
CHECK_VERSIONED(cuCtxPopCurrent, v2);
CHECK_VERSIONED(cuStreamDestroy, v2);
CHECK_VERSIONED(cuEventDestroy, v2);
CHECK_VERSIONED(cuEventElapsedTime, v2);
CHECK_VERSIONED(cuMemcpyDtoDAsync, v2);
static_assert(kCudaSuccess == CUDA_SUCCESS && kCudaNotReady == CUDA_ERROR_NOT_READY &&
                  kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY,
              "CUresult");
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING, "CUstream_flags");
static_assert(kCudaCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
                  kCudaCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
              "CUdevice_attribute");
static_assert(kCudaCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED, "CUstreamCaptureMode");
static_assert(kCudaCapturesNothing == CU_STREAM_CAPTURE_STATUS_NONE, "CUstreamCaptureStatus");
static_assert(kCudaCaptureHasFailed == CU_STREAM_CAPTURE_STATUS_INVALIDATED, "CUstreamCaptureStatus");
static_assert(kCudaEventDefault == CU_EVENT_DEFAULT && kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING,
              "CUevent_flags");
static_assert(kCudaPoolReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, "CUmemPool_attribute");

#define CHECK_NCCL(name) static_assert(Fit(decltype(&::name){}, decltype(NcclLibrary::name){}), #name)
CHECK_NCCL(ncclGetVersion);
CHECK_NCCL(ncclCommSplit);
CHECK_NCCL(ncclCommFinalize);
CHECK_NCCL(ncclCommDestroy);
CHECK_NCCL(ncclCommAbort);
CHECK_NCCL(ncclCommGetAsyncError);
CHECK_NCCL(ncclGetErrorString);
CHECK_NCCL(ncclGetLastError);
CHECK_NCCL(ncclRedOpCreatePreMulSum);
CHECK_NCCL(ncclRedOpDestroy);
CHECK_NCCL(ncclAllReduce);
CHECK_NCCL(ncclReduce);
CHECK_NCCL(ncclReduceScatter);
CHECK_NCCL(ncclAllGather);
CHECK_NCCL(ncclBroadcast);
CHECK_NCCL(ncclSend);
CHECK_NCCL(ncclRecv);
CHECK_NCCL(ncclGroupStart);
CHECK_NCCL(ncclGroupEnd);
CHECK_NCCL(ncclMemAlloc);
CHECK_NCCL(ncclMemFree);
CHECK_NCCL(ncclCommRegister);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId), "ncclUniqueId");
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress && kNcclRemoteError == ncclRemoteError,
              "ncclResult_t");
static_assert(kNcclInt8 == ncclInt8 && kNcclUint8 == ncclUint8 && kNcclInt32 == ncclInt32 && kNcclInt64 == ncclInt64 &&
                  kNcclFloat16 == ncclFloat16 && kNcclFloat32 == ncclFloat32 && kNcclFloat64 == ncclFloat64 &&
                  kNcclBfloat16 == ncclBfloat16 && kNcclFloat8E4M3 == ncclFloat8e4m3 &&
                  kNcclFloat8E5M2 == ncclFloat8e5m2,
              "ncclDataType_t");
static_assert(kNcclSum == ncclSum && kNcclProd == ncclProd && kNcclMax == ncclMax && kNcclMin == ncclMin &&
                  kNcclAvg == ncclAvg,
              "ncclRedOp_t");
static_assert(kNcclScalarHostImmediate == ncclScalarHostImmediate, "ncclScalarResidence_t");

// The configuration is the beginning of theirs.
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t), "ncclConfig_t");
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking), "ncclConfig_t.blocking");
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName), "ncclConfig_t.netName");
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare), "ncclConfig_t.splitShare");
static_assert(NcclConfig::kUndefined == NCCL_CONFIG_UNDEF_INT, "ncclConfig_t");
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(NcclConfig().magic == kTheirs.magic, "ncclConfig_t.magic");

}  // namespace
}  // namespace farandole
