// A library in the place of CUDA's driver, NCCL and NVML, for whole processes on machines without GPUs: GPU 0 has the
// host's memory, ranks meet in the directory that fake_begin is given first. There is one stream of the framework,
// whose work is done by the host: waits of that stream happen here.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "base/check.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/device/fake/fake_graph.h"
#include "worker/device/nvml_library.h"

namespace farandole {
namespace {

// Never destroyed: others' threads use it until the process ends.
FakeGpus* gpus = nullptr;

FakeGpus& Gpus() {
  FD_CHECK(gpus != nullptr) << "fake_begin was not called";
  return *gpus;
}

CudaStream FrameworkStream() {
  static const CudaStream stream = Gpus().MakeStream();
  return stream;
}

bool dies_in_split = false;

int Settle(int result, CudaStream stream) {
  if (result == 0 && stream == FrameworkStream()) Gpus().Synchronize(stream);
  return result;
}

}  // namespace
}  // namespace farandole

using namespace farandole;  // NOLINT(build/namespaces): the exported functions' types

extern "C" {

void fake_begin(const char* directory) {
  const uint32_t process = static_cast<uint32_t>(getpid());
  gpus = new FakeGpus(1, process * FakeGpus::kVersions);
  gpus->ShareThrough(directory, process);
}
void* fake_framework_stream() { return FrameworkStream(); }
void fake_refuse_modules() { Gpus().RefuseModules(); }
void fake_die_in_split() { dies_in_split = true; }
void fake_hang_collectives() { Gpus().HangCollectives(true); }
// Of the framework's stream, whose own work is not captured, since the host does it.
void fake_begin_capture() { Gpus().BeginCapture(FrameworkStream()); }
void* fake_end_capture() { return Gpus().EndCapture(FrameworkStream()).release(); }
void fake_launch(void* graph) {
  Gpus().Launch(FrameworkStream(), *static_cast<FakeGraph*>(graph));
  Gpus().Synchronize(FrameworkStream());
}

int cuInit(unsigned flags) { return Gpus().driver().cuInit(flags); }
int cuGetErrorString(int error, const char** words) { return Gpus().driver().cuGetErrorString(error, words); }
int cuDeviceGetCount(int* count) { return Gpus().driver().cuDeviceGetCount(count); }
int cuDeviceGet(int* device, int ordinal) { return Gpus().driver().cuDeviceGet(device, ordinal); }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return Gpus().driver().cuDeviceGetAttribute(value, attribute, device);
}
int cuDeviceGetUuid_v2(CudaUuid* uuid, int device) { return Gpus().driver().cuDeviceGetUuid(uuid, device); }
int cuDevicePrimaryCtxRetain(CudaContext* context, int device) {
  return Gpus().driver().cuDevicePrimaryCtxRetain(context, device);
}
int cuDevicePrimaryCtxRelease_v2(int device) { return Gpus().driver().cuDevicePrimaryCtxRelease(device); }
int cuDeviceGetDefaultMemPool(CudaPool* pool, int device) {
  return Gpus().driver().cuDeviceGetDefaultMemPool(pool, device);
}
int cuMemPoolSetAttribute(CudaPool pool, int attribute, void* value) {
  return Gpus().driver().cuMemPoolSetAttribute(pool, attribute, value);
}
int cuCtxPushCurrent_v2(CudaContext context) { return Gpus().driver().cuCtxPushCurrent(context); }
int cuCtxPopCurrent_v2(CudaContext* context) { return Gpus().driver().cuCtxPopCurrent(context); }
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Gpus().driver().cuCtxGetStreamPriorityRange(least, greatest);
}
int cuStreamCreateWithPriority(CudaStream* stream, unsigned flags, int priority) {
  return Gpus().driver().cuStreamCreateWithPriority(stream, flags, priority);
}
int cuStreamDestroy_v2(CudaStream stream) { return Gpus().driver().cuStreamDestroy(stream); }
int cuStreamIsCapturing(CudaStream stream, int* status) { return Gpus().driver().cuStreamIsCapturing(stream, status); }
int cuThreadExchangeStreamCaptureMode(int* mode) { return Gpus().driver().cuThreadExchangeStreamCaptureMode(mode); }
int cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  return Settle(Gpus().driver().cuStreamWaitEvent(stream, event, flags), stream);
}
int cuEventCreate(CudaEvent* event, unsigned flags) { return Gpus().driver().cuEventCreate(event, flags); }
int cuEventDestroy_v2(CudaEvent event) { return Gpus().driver().cuEventDestroy(event); }
int cuEventRecord(CudaEvent event, CudaStream stream) {
  return Settle(Gpus().driver().cuEventRecord(event, stream), stream);
}
int cuEventQuery(CudaEvent event) { return Gpus().driver().cuEventQuery(event); }
int cuEventSynchronize(CudaEvent event) { return Gpus().driver().cuEventSynchronize(event); }
int cuEventElapsedTime(float* milliseconds, CudaEvent from, CudaEvent to) {
  return Gpus().driver().cuEventElapsedTime(milliseconds, from, to);
}
int cuMemAllocAsync(CudaAddress* address, size_t bytes, CudaStream stream) {
  return Gpus().driver().cuMemAllocAsync(address, bytes, stream);
}
int cuMemFreeAsync(CudaAddress address, CudaStream stream) { return Gpus().driver().cuMemFreeAsync(address, stream); }
int cuMemcpyDtoDAsync_v2(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream) {
  return Settle(Gpus().driver().cuMemcpyDtoDAsync(to, from, bytes, stream), stream);
}
int cuMemsetD8Async(CudaAddress to, unsigned char value, size_t bytes, CudaStream stream) {
  return Gpus().driver().cuMemsetD8Async(to, value, bytes, stream);
}
int cuModuleLoadData(CudaModule* module, const void* image) { return Gpus().driver().cuModuleLoadData(module, image); }
int cuModuleUnload(CudaModule module) { return Gpus().driver().cuModuleUnload(module); }
int cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
  return Gpus().driver().cuModuleGetFunction(function, module, name);
}
int cuLaunchKernel(CudaFunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, CudaStream stream, void** parameters,
                   void** extra) {
  return Gpus().driver().cuLaunchKernel(function, blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z,
                                        shared_bytes, stream, parameters, extra);
}

int ncclGetVersion(int* version) { return Gpus().nccl().ncclGetVersion(version); }
int ncclGetUniqueId(NcclUniqueId* id) { return Gpus().nccl().ncclGetUniqueId(id); }
int ncclCommInitRankConfig(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  return Gpus().nccl().ncclCommInitRankConfig(comm, ranks, id, rank, config);
}
int ncclCommSplit(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config) {
  if (dies_in_split) raise(SIGKILL);
  return Gpus().nccl().ncclCommSplit(comm, color, key, made, config);
}
int ncclCommFinalize(NcclComm comm) { return Gpus().nccl().ncclCommFinalize(comm); }
int ncclCommDestroy(NcclComm comm) { return Gpus().nccl().ncclCommDestroy(comm); }
int ncclCommAbort(NcclComm comm) { return Gpus().nccl().ncclCommAbort(comm); }
int ncclCommGetAsyncError(NcclComm comm, int* error) { return Gpus().nccl().ncclCommGetAsyncError(comm, error); }
const char* ncclGetErrorString(int result) { return Gpus().nccl().ncclGetErrorString(result); }
const char* ncclGetLastError(NcclComm comm) { return Gpus().nccl().ncclGetLastError(comm); }
int ncclRedOpCreatePreMulSum(int* op, void* scalar, int dtype, int residence, NcclComm comm) {
  return Gpus().nccl().ncclRedOpCreatePreMulSum(op, scalar, dtype, residence, comm);
}
int ncclRedOpDestroy(int op, NcclComm comm) { return Gpus().nccl().ncclRedOpDestroy(op, comm); }
int ncclAllReduce(const void* input, void* output, size_t count, int dtype, int op, NcclComm comm, CudaStream stream) {
  return Gpus().nccl().ncclAllReduce(input, output, count, dtype, op, comm, stream);
}
int ncclReduce(const void* input, void* output, size_t count, int dtype, int op, int root, NcclComm comm,
               CudaStream stream) {
  return Gpus().nccl().ncclReduce(input, output, count, dtype, op, root, comm, stream);
}
int ncclReduceScatter(const void* input, void* output, size_t count, int dtype, int op, NcclComm comm,
                      CudaStream stream) {
  return Gpus().nccl().ncclReduceScatter(input, output, count, dtype, op, comm, stream);
}
int ncclAllGather(const void* input, void* output, size_t count, int dtype, NcclComm comm, CudaStream stream) {
  return Gpus().nccl().ncclAllGather(input, output, count, dtype, comm, stream);
}
int ncclBroadcast(const void* input, void* output, size_t count, int dtype, int root, NcclComm comm,
                  CudaStream stream) {
  return Gpus().nccl().ncclBroadcast(input, output, count, dtype, root, comm, stream);
}
int ncclSend(const void* input, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
  return Gpus().nccl().ncclSend(input, count, dtype, peer, comm, stream);
}
int ncclRecv(void* output, size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
  return Gpus().nccl().ncclRecv(output, count, dtype, peer, comm, stream);
}
int ncclGroupStart() { return Gpus().nccl().ncclGroupStart(); }
int ncclGroupEnd() { return Gpus().nccl().ncclGroupEnd(); }
int ncclMemAlloc(void** memory, size_t bytes) { return Gpus().nccl().ncclMemAlloc(memory, bytes); }
int ncclMemFree(void* memory) { return Gpus().nccl().ncclMemFree(memory); }
int ncclCommRegister(NcclComm comm, void* memory, size_t bytes, void** handle) {
  return Gpus().nccl().ncclCommRegister(comm, memory, bytes, handle);
}

int nvmlInit_v2() { return kNvmlSuccess; }
const char* nvmlErrorString(int) { return "there is one GPU"; }
int nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  *device = nullptr;
  return strcmp(uuid, "GPU-00000000-0000-0000-0000-000000000000") == 0 ? kNvmlSuccess : 6;
}
int nvmlDeviceGetName(NvmlDevice, char* name, unsigned length) {
  strncpy(name, "Imitation", length);
  return kNvmlSuccess;
}
int nvmlDeviceGetMemoryInfo(NvmlDevice, NvmlMemory* memory) {
  *memory = {uint64_t{16} << 30, uint64_t{12} << 30, uint64_t{4} << 30};
  return kNvmlSuccess;
}
int nvmlDeviceGetUtilizationRates(NvmlDevice, NvmlUtilization* utilization) {
  *utilization = {42, 7};
  return kNvmlSuccess;
}

}  // extern "C"
