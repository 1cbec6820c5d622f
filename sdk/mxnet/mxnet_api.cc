#include "sdk/mxnet/mxnet_api.h"

#include <dlfcn.h>

#include <new>

namespace farandole::mxnet {
namespace {

MxnetApi the_api = {};

// mxnet::NDArray, whose first member points to its memory (a std::shared_ptr<mxnet::NDArray::Chunk>). It is made in
// memory that is large enough, and MXNet ends it.
struct Array {
  alignas(64) char members[2048];
  Array(const Array&) = delete;
  // Not trivial, as MXNet's: so the function returns it in memory.
  ~Array() {}
};

// The two functions of MXNet that its C interface lacks; null in an MXNet that was built without oneDNN, whose arrays
// all are in row-major order.
Array (*reordered)(const void* array) = nullptr;  // mxnet::NDArray::Reorder2Default() const
void (*reorder)(void* memory) = nullptr;          // mxnet::NDArray::Chunk::Reorder2Default()

struct Symbol {
  const char* name;
  void* slot;
};

std::string Find(const char* path) {
  void* const opened = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (opened == nullptr) return std::string("MXNet's library ") + path + " is not loaded";
#define FARANDOLE_SYMBOL(name) \
  Symbol { #name, &the_api.name }
  const Symbol symbols[] = {
      FARANDOLE_SYMBOL(MXGetLastError),      FARANDOLE_SYMBOL(MXShallowCopyNDArray),
      FARANDOLE_SYMBOL(MXNDArrayFree),       FARANDOLE_SYMBOL(MXNDArrayGetData),
      FARANDOLE_SYMBOL(MXNDArrayGetDType),   FARANDOLE_SYMBOL(MXNDArrayGetShapeEx),
      FARANDOLE_SYMBOL(MXEnginePushAsyncND),
  };
#undef FARANDOLE_SYMBOL
  for (const Symbol& symbol : symbols) {
    void* const found = dlsym(opened, symbol.name);
    if (found == nullptr) return std::string("MXNet's library lacks the function ") + symbol.name;
    *static_cast<void**>(symbol.slot) = found;
  }
  *reinterpret_cast<void**>(&reordered) = dlsym(opened, "_ZNK5mxnet7NDArray15Reorder2DefaultEv");
  *reinterpret_cast<void**>(&reorder) = dlsym(opened, "_ZN5mxnet7NDArray5Chunk15Reorder2DefaultEv");
  return "";
}

}  // namespace

const MxnetApi& Mxnet() { return the_api; }

const void* MemoryOf(NDArrayHandle array) { return *static_cast<void**>(array); }

OwnedArray InRowMajorOrder(NDArrayHandle array) {
  if (reordered == nullptr) {
    NDArrayHandle copy = nullptr;
    Mxnet().MXShallowCopyNDArray(array, &copy);
    return OwnedArray(copy);
  }
  void* const memory = ::operator new(sizeof(Array));
  return OwnedArray(new (memory) Array(reordered(array)));
}

void BringIntoRowMajorOrder(NDArrayHandle array) {
  if (reorder != nullptr) reorder(*static_cast<void**>(array));
}

}  // namespace farandole::mxnet

extern "C" const char* farandole_mxnet_find(const char* path) {
  static std::string* reason = new std::string();
  *reason = farandole::mxnet::Find(path);
  return reason->empty() ? nullptr : reason->c_str();
}
