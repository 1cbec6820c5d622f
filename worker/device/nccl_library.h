#ifndef FARANDOLE_WORKER_DEVICE_NCCL_LIBRARY_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_LIBRARY_H_

#include <climits>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/cuda_driver.h"

// As nccl.h has it, which is needed to check this file (worker/device/declarations_check.cc), and not to build it.
struct ncclComm;

namespace farandole {

using NcclComm = ncclComm*;
struct NcclUniqueId {
  char internal[128];
};

// ncclResult_t.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclRemoteError = 6;
inline constexpr int kNcclInProgress = 7;

// ncclDataType_t.
inline constexpr int kNcclInt8 = 0;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclInt32 = 2;
inline constexpr int kNcclInt64 = 4;
inline constexpr int kNcclFloat16 = 6;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclFloat64 = 8;
inline constexpr int kNcclBfloat16 = 9;
inline constexpr int kNcclFloat8E4M3 = 10;
inline constexpr int kNcclFloat8E5M2 = 11;

// ncclRedOp_t.
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclProd = 1;
inline constexpr int kNcclMax = 2;
inline constexpr int kNcclMin = 3;
inline constexpr int kNcclAvg = 4;
// ncclScalarResidence_t.
inline constexpr int kNcclScalarHostImmediate = 1;

// ncclConfig_t as NCCL 2.18 has it. Later versions have more behind it, and take one that says it is of 2.18.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;

  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// The functions of NCCL that are used, each named as there. Types and numbers are nccl.h's. `version`: 23007 is 2.30.7.
struct NcclLibrary {
  static constexpr int kOldestVersion = 21800;

  int version;
  int (*ncclGetVersion)(int* version);
  int (*ncclGetUniqueId)(NcclUniqueId* id);
  int (*ncclCommInitRankConfig)(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config);
  int (*ncclCommSplit)(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config);
  int (*ncclCommFinalize)(NcclComm comm);
  int (*ncclCommDestroy)(NcclComm comm);
  int (*ncclCommAbort)(NcclComm comm);
  int (*ncclCommGetAsyncError)(NcclComm comm, int* error);
  const char* (*ncclGetErrorString)(int result);
  const char* (*ncclGetLastError)(NcclComm comm);
  int (*ncclRedOpCreatePreMulSum)(int* op, void* scalar, int dtype, int residence, NcclComm comm);
  int (*ncclRedOpDestroy)(int op, NcclComm comm);
  int (*ncclAllReduce)(const void* input, void* output, size_t count, int dtype, int op, NcclComm comm,
                       CudaStream stream);
  int (*ncclReduce)(const void* input, void* output, size_t count, int dtype, int op, int root, NcclComm comm,
                    CudaStream stream);
  int (*ncclReduceScatter)(const void* input, void* output, size_t output_count, int dtype, int op, NcclComm comm,
                           CudaStream stream);
  int (*ncclAllGather)(const void* input, void* output, size_t input_count, int dtype, NcclComm comm,
                       CudaStream stream);
  int (*ncclBroadcast)(const void* input, void* output, size_t count, int dtype, int root, NcclComm comm,
                       CudaStream stream);
  int (*ncclSend)(const void* input, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream);
  int (*ncclRecv)(void* output, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream);
  int (*ncclGroupStart)();
  int (*ncclGroupEnd)();
  // Null: NCCL before 2.19, which has not the other two either.
  int (*ncclMemAlloc)(void** memory, size_t bytes);
  int (*ncclMemFree)(void* memory);
  int (*ncclCommRegister)(NcclComm comm, void* memory, size_t bytes, void** handle);

  // OK, also for a call in progress, or INTERNAL with NCCL's words: "ncclAllReduce: invalid argument (error 4)". `comm`
  // (may be null) may know more of it.
  absl::Status Check(int result, absl::string_view call, NcclComm comm) const;

  // The functions of the libnccl.so.2 that the process has loaded already, as PyTorch does; else of `path`, and if that
  // is empty, of the one that the system finds. It stays loaded; once there is one, the same at each call.
  //   UNAVAILABLE: there is none, or it is older than 2.18; the text says why.
  static absl::StatusOr<const NcclLibrary*> Load(const std::string& path);
};

// "2.30.7" of 23007.
std::string NcclVersionName(int version);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_LIBRARY_H_
