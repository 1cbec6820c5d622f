#include "worker/device/fake/fake_gpus.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "worker/device/fake/fake_graph.h"
#include "worker/device/fake/fake_nccl.h"

namespace farandole {
namespace {

FakeGpus* fake = nullptr;
thread_local std::vector<CudaContext> contexts;
thread_local int capture_mode = 0;  // global

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kUnsupportedPtx = 222;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kCaptureUnsafe = 900;
constexpr int kCaptureIsolation = 905;
constexpr int kCapturedEvent = 907;
constexpr auto kLook = std::chrono::microseconds(200);
// As many as the kernels are compiled for at most.
constexpr unsigned kMostThreads = PieceBatch::kThreads;
// How long the framework's work lasts, at most, by how often it is looked at.
constexpr uint32_t kMostLooksAtWork = 16;

}  // namespace

FakeGpus& TheFakeGpus() { return *fake; }
bool IsInFakeContext() { return !contexts.empty(); }

// The functions behind the driver's table.
struct FakeCalls {
  static int NeedContext(const char* call) {
    if (!IsInFakeContext()) return kInvalidContext;
    if (!fake->captured_.empty() && capture_mode != kCudaCaptureRelaxed) return kCaptureUnsafe;
    return fake->Enter(call);
  }
  static int Init(unsigned) { return 0; }
  static int ErrorString(int error, const char** words) {
    *words = error == kInvalidContext ? "invalid device context" : "a scripted failure";
    return 0;
  }
  static int Count(int* count) {
    *count = fake->gpus_;
    return 0;
  }
  static int Get(int* device, int ordinal) {
    *device = ordinal;
    return ordinal < fake->gpus_ ? 0 : kInvalidValue;
  }
  static int Attribute(int* value, int attribute, int) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    *value = attribute == kCudaCapabilityMajor ? fake->capability_ / 10 : fake->capability_ % 10;
    return attribute == kCudaCapabilityMajor || attribute == kCudaCapabilityMinor ? 0 : kInvalidValue;
  }
  static int Uuid(CudaUuid* uuid, int device) {
    uuid->fill(static_cast<uint8_t>(device));
    return 0;
  }
  static int Retain(CudaContext* context, int device) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    ++fake->contexts_;
    *context = reinterpret_cast<CudaContext>(static_cast<uintptr_t>(device + 1));
    return 0;
  }
  static int Release(int) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    --fake->contexts_;
    return 0;
  }
  static int Pool(CudaPool* pool, int) {
    *pool = nullptr;
    return 0;
  }
  static int SetPool(CudaPool, int, void*) { return 0; }
  static int Push(CudaContext context) {
    contexts.push_back(context);
    return 0;
  }
  static int Pop(CudaContext* context) {
    *context = contexts.back();
    contexts.pop_back();
    return 0;
  }
  static int Range(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return 0;
  }
  static int StreamCreate(CudaStream* stream, unsigned, int) {
    *stream = fake->MakeStream();
    return 0;
  }
  static int StreamDestroy(CudaStream stream) {
    fake->Synchronize(stream);
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    fake->streams_.erase(stream);
    delete stream;
    return 0;
  }
  static int IsCapturing(CudaStream stream, int* status) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    *status = stream->graph == nullptr ? kCudaCapturesNothing : stream->graph->is_spoiled() ? kCudaCaptureHasFailed : 1;
    return 0;
  }
  static int ExchangeMode(int* mode) {
    std::swap(*mode, capture_mode);
    return 0;
  }
  static int StreamWait(CudaStream stream, CudaEvent event, unsigned) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuStreamWaitEvent"); failure != 0) return failure;
    if (event->graph != nullptr) {
      if (fake->captured_.count(event->graph) == 0) return kCapturedEvent;
      if (stream->graph == nullptr) stream->graph = event->graph;
      if (stream->graph != event->graph) return kCapturedEvent;
      stream->graph->Wait(stream, event->point);
      return 0;
    }
    if (stream->graph != nullptr) {
      stream->graph->Spoil();
      return kCaptureIsolation;
    }
    fake->Push(stream, [event, wanted = event->recorded] { return event->reached >= wanted; });
    return 0;
  }
  static int EventCreate(CudaEvent* event, unsigned flags) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (const int failure = NeedContext("cuEventCreate"); failure != 0) return failure;
    // The driver keeps it as long as something is enqueued for it; so does this, until the end.
    fake->made_events_.push_back(std::make_unique<CUevent_st>());
    *event = fake->made_events_.back().get();
    (*event)->is_timed = flags != kCudaEventDisableTiming;
    ++fake->events_;
    return 0;
  }
  static int EventDestroy(CudaEvent) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    --fake->events_;
    return 0;
  }
  static int EventRecord(CudaEvent event, CudaStream stream) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuEventRecord"); failure != 0) return failure;
    event->graph = stream->graph;
    if (stream->graph != nullptr) {
      event->point = stream->graph->Record(stream);
      return 0;
    }
    fake->Push(stream, [event, number = ++event->recorded] {
      event->reached = std::max(event->reached, number);
      event->time = std::chrono::steady_clock::now();
      return true;
    });
    return 0;
  }
  static int EventQuery(CudaEvent event) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (!fake->captured_.empty() && capture_mode != kCudaCaptureRelaxed) return kCaptureUnsafe;
    if (event->graph != nullptr) return kCapturedEvent;
    return event->reached >= event->recorded ? kCudaSuccess : kCudaNotReady;
  }
  static int EventSynchronize(CudaEvent event) {
    std::unique_lock<std::mutex> lock(fake->mutex_);
    if (event->graph != nullptr) return kCapturedEvent;
    while (event->reached < event->recorded) fake->changed_.wait_for(lock, kLook);
    return 0;
  }
  static int Elapsed(float* milliseconds, CudaEvent from, CudaEvent to) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (!from->is_timed || !to->is_timed) return kInvalidHandle;
    if (from->reached < from->recorded || to->reached < to->recorded) return kCudaNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return 0;
  }
  static int Alloc(CudaAddress* address, size_t bytes, CudaStream stream) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuMemAllocAsync"); failure != 0) return failure;
    auto block = std::make_unique<std::vector<char>>(bytes, '\xcd');
    *address = reinterpret_cast<uintptr_t>(block->data());
    fake->memory_[*address] = std::move(block);
    if (stream->graph != nullptr) {
      stream->graph->memory().push_back(*address);
      Spoil(*address, stream);
    }
    return 0;
  }
  // Memory that a graph allocates belongs to the graph as long as that lives, and holds nothing before and after each
  // run.
  static void Spoil(CudaAddress address, CudaStream stream) {
    fake->Push(stream, [block = fake->memory_[address].get()] {
      std::fill(block->begin(), block->end(), '\xcd');
      return true;
    });
  }
  static int Free(CudaAddress address, CudaStream stream) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuMemFreeAsync"); failure != 0) return failure;
    if (stream->graph != nullptr) {
      const std::vector<CudaAddress>& own = stream->graph->memory();
      FD_CHECK(std::count(own.begin(), own.end(), address) == 1) << "a graph frees memory that is not its own";
      Spoil(address, stream);
      return 0;
    }
    fake->Push(stream, [address] {
      auto found = fake->memory_.find(address);
      FD_CHECK(found != fake->memory_.end()) << "memory of a GPU is freed that was not allocated";
      fake->memory_.erase(found);
      return true;
    });
    return 0;
  }
  static int Copy(CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuMemcpyDtoDAsync"); failure != 0) return failure;
    fake->Push(stream, [to, from, bytes] {
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      return true;
    });
    return 0;
  }
  static int Fill(CudaAddress to, unsigned char value, size_t bytes, CudaStream stream) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuMemsetD8Async"); failure != 0) return failure;
    fake->Push(stream, [to, value, bytes] {
      std::memset(reinterpret_cast<void*>(to), value, bytes);
      return true;
    });
    return 0;
  }
  static int LoadModule(CudaModule* module, const void* image) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (const int failure = NeedContext("cuModuleLoadData"); failure != 0) return failure;
    if (fake->refuses_modules_) return kUnsupportedPtx;
    *module = *fake->modules_.insert(new CUmod_st).first;
    (*module)->image = static_cast<const char*>(image);
    return 0;
  }
  static int UnloadModule(CudaModule module) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (const int failure = NeedContext("cuModuleUnload"); failure != 0) return failure;
    fake->modules_.erase(module);
    delete module;
    return 0;
  }
  static int GetFunction(CudaFunction* function, CudaModule module, const char* name) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (const int failure = NeedContext("cuModuleGetFunction"); failure != 0) return failure;
    const HostKernel kernel = FindHostKernel(name);
    const bool is_there = module->image.find(std::string(".visible .entry ") + name + "(") != std::string::npos;
    if (kernel == nullptr || !is_there) return kNotFound;
    module->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{kernel}));
    *function = module->functions.back().get();
    return 0;
  }
  static int LaunchKernel(CudaFunction function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                          unsigned threads, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                          CudaStream stream, void** parameters, void** extra) {
    const std::unique_lock<std::mutex> lock = fake->LockWithRoom();
    if (const int failure = NeedContext("cuLaunchKernel"); failure != 0) return failure;
    const bool is_flat = blocks_y == 1 && blocks_z == 1 && threads_y == 1 && threads_z == 1;
    if (!is_flat || blocks == 0 || threads > kMostThreads || shared_bytes != 0 || extra != nullptr)
      return kInvalidValue;
    const auto* batch = static_cast<const PieceBatch*>(parameters[0]);
    fake->Push(stream, [kernel = function->kernel, batch = *batch, blocks, threads] {
      RunHostKernel(kernel, batch, blocks, threads);
      return true;
    });
    return 0;
  }
};

FakeGpus::FakeGpus(int gpus, uint32_t seed) : gpus_(gpus), random_(seed) {
  FD_CHECK(fake == nullptr) << "there are fake GPUs already";
  fake = this;
  driver_.cuInit = FakeCalls::Init;
  driver_.cuGetErrorString = FakeCalls::ErrorString;
  driver_.cuDeviceGetCount = FakeCalls::Count;
  driver_.cuDeviceGet = FakeCalls::Get;
  driver_.cuDeviceGetAttribute = FakeCalls::Attribute;
  driver_.cuDeviceGetUuid = FakeCalls::Uuid;
  driver_.cuDevicePrimaryCtxRetain = FakeCalls::Retain;
  driver_.cuDevicePrimaryCtxRelease = FakeCalls::Release;
  driver_.cuDeviceGetDefaultMemPool = FakeCalls::Pool;
  driver_.cuMemPoolSetAttribute = FakeCalls::SetPool;
  driver_.cuCtxPushCurrent = FakeCalls::Push;
  driver_.cuCtxPopCurrent = FakeCalls::Pop;
  driver_.cuCtxGetStreamPriorityRange = FakeCalls::Range;
  driver_.cuStreamCreateWithPriority = FakeCalls::StreamCreate;
  driver_.cuStreamDestroy = FakeCalls::StreamDestroy;
  driver_.cuStreamIsCapturing = FakeCalls::IsCapturing;
  driver_.cuThreadExchangeStreamCaptureMode = FakeCalls::ExchangeMode;
  driver_.cuStreamWaitEvent = FakeCalls::StreamWait;
  driver_.cuEventCreate = FakeCalls::EventCreate;
  driver_.cuEventDestroy = FakeCalls::EventDestroy;
  driver_.cuEventRecord = FakeCalls::EventRecord;
  driver_.cuEventQuery = FakeCalls::EventQuery;
  driver_.cuEventSynchronize = FakeCalls::EventSynchronize;
  driver_.cuEventElapsedTime = FakeCalls::Elapsed;
  driver_.cuMemAllocAsync = FakeCalls::Alloc;
  driver_.cuMemFreeAsync = FakeCalls::Free;
  driver_.cuMemcpyDtoDAsync = FakeCalls::Copy;
  driver_.cuMemsetD8Async = FakeCalls::Fill;
  driver_.cuModuleLoadData = FakeCalls::LoadModule;
  driver_.cuModuleUnload = FakeCalls::UnloadModule;
  driver_.cuModuleGetFunction = FakeCalls::GetFunction;
  driver_.cuLaunchKernel = FakeCalls::LaunchKernel;
  FillFakeNccl(&nccl_);
  // Nor does NCCL before 2.19 have memory.
  if (seed % kVersions == 2) nccl_.ncclMemAlloc = nullptr;
  runner_ = std::thread([this] { Run(); });
}

void FakeGpus::ShareThrough(const std::string& directory, uint32_t process) {
  directory_ = directory;
  last_id_ = uint64_t{process} << 32;
}

FakeGpus::~FakeGpus() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  runner_.join();
  for (const CudaStream stream : streams_) delete stream;
  for (const CudaModule module : modules_) delete module;
  fake = nullptr;
}

int FakeGpus::Enter(const char* call) {
  calls_.emplace_back(call);
  const auto found = failures_.find(call);
  if (found == failures_.end()) return 0;
  const int result = found->second;
  failures_.erase(found);
  return result;
}

CudaStream FakeGpus::MakeStream() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return *streams_.insert(new CUstream_st).first;
}

void FakeGpus::FillStreams() {
  const std::lock_guard<std::mutex> lock(mutex_);
  are_full_ = true;
}

void FakeGpus::AwaitBlocked(int threads) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (blocked_ < threads) changed_.wait(lock);
}

std::unique_lock<std::mutex> FakeGpus::LockWithRoom() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!are_full_) return lock;
  ++blocked_;
  changed_.notify_all();
  while (are_full_) changed_.wait(lock);
  --blocked_;
  return lock;
}

void FakeGpus::Push(CudaStream stream, std::function<bool()> task) {
  PushMade(stream, [task = std::move(task)] { return task; });
}

void FakeGpus::PushMade(CudaStream stream, std::function<std::function<bool()>()> make) {
  FD_CHECK(streams_.count(stream) == 1) << "a stream that is not there";
  if (stream->graph != nullptr) return stream->graph->Add(stream, std::move(make));
  stream->tasks.push_back(make());
  changed_.notify_all();
}

void FakeGpus::Launch(CudaStream stream, std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Push(stream, [work = std::move(work), looks_left = random_() % kMostLooksAtWork]() mutable {
    if (looks_left-- > 0) return false;
    work();
    return true;
  });
}

void FakeGpus::Block(CudaStream stream, std::function<bool()> is_over) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Push(stream, std::move(is_over));
}

void FakeGpus::Synchronize(CudaStream stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stream->tasks.empty()) changed_.wait_for(lock, kLook);
}

// Runs one task at a time, of a stream that is drawn among those that have some.
void FakeGpus::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    std::vector<CudaStream> busy;
    for (const CudaStream stream : streams_) {
      if (!holds_ && !stream->tasks.empty()) busy.push_back(stream);
    }
    std::shuffle(busy.begin(), busy.end(), random_);
    bool moved = false;
    for (const CudaStream stream : busy) {
      if (!stream->tasks.front()()) continue;
      stream->tasks.pop_front();
      moved = true;
      break;
    }
    changed_.notify_all();
    if (!moved) changed_.wait_for(lock, kLook);
    // At times nothing happens for a while, as on a GPU that is busy with something else.
    if (moved && random_() % 8 == 0) changed_.wait_for(lock, kLook);
  }
}

void FakeGpus::FailNext(const std::string& call, int result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failures_[call] = result;
}

void FakeGpus::HangCollectives(bool hang) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hangs_ = hang;
}

void FakeGpus::RefuseModules() {
  const std::lock_guard<std::mutex> lock(mutex_);
  refuses_modules_ = true;
}

void FakeGpus::HoldStreams(bool hold) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holds_ = hold;
}

void FakeGpus::HoldSplits(bool hold) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holds_splits_ = hold;
}

void FakeGpus::BeOf(int nccl_version, int capability) {
  const std::lock_guard<std::mutex> lock(mutex_);
  nccl_.version = nccl_version;
  capability_ = capability;
}

void FakeGpus::BreakCommunicators(int result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  broken_ = result;
}

std::vector<std::string> FakeGpus::TakeCalls() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(calls_, {});
}

int FakeGpus::live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return LiveLocked();
}

void FakeGpus::AwaitNothingLive() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (LiveLocked() > 0) changed_.wait_for(lock, kLook);
}

}  // namespace farandole
