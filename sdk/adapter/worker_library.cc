#include "sdk/adapter/worker_library.h"

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <utility>

namespace farandole::adapter {
namespace {

WorkerLibrary the_library = {};
bool is_connected = false;

struct Symbol {
  const char* name;
  void* slot;
};

#define FARANDOLE_SYMBOL(name) \
  Symbol { "farandole_" #name, &the_library.name }
const Symbol kSymbols[] = {
    FARANDOLE_SYMBOL(abi_version),
    FARANDOLE_SYMBOL(last_error),
    FARANDOLE_SYMBOL(rank),
    FARANDOLE_SYMBOL(size),
    FARANDOLE_SYMBOL(local_rank),
    FARANDOLE_SYMBOL(local_size),
    FARANDOLE_SYMBOL(cross_rank),
    FARANDOLE_SYMBOL(cross_size),
    FARANDOLE_SYMBOL(epoch),
    FARANDOLE_SYMBOL(group_rank),
    FARANDOLE_SYMBOL(use_stream),
    FARANDOLE_SYMBOL(group_size),
    FARANDOLE_SYMBOL(allreduce),
    FARANDOLE_SYMBOL(grouped_allreduce),
    FARANDOLE_SYMBOL(allgather),
    FARANDOLE_SYMBOL(alltoall),
    FARANDOLE_SYMBOL(broadcast),
    FARANDOLE_SYMBOL(reducescatter),
    FARANDOLE_SYMBOL(join),
    FARANDOLE_SYMBOL(barrier),
    FARANDOLE_SYMBOL(poll),
    FARANDOLE_SYMBOL(wait),
    FARANDOLE_SYMBOL(wait_for_completion),
    FARANDOLE_SYMBOL(result),
    FARANDOLE_SYMBOL(copy_result),
    FARANDOLE_SYMBOL(release),
    FARANDOLE_SYMBOL(gather),
    FARANDOLE_SYMBOL(scatter),
};
#undef FARANDOLE_SYMBOL

std::string Connect(const char* path, bool deepbind) {
  void* opened = dlopen(path, RTLD_NOW | RTLD_LOCAL | (deepbind ? RTLD_DEEPBIND : 0));
  if (opened == nullptr) return dlerror();
  for (const Symbol& symbol : kSymbols) {
    void* const found = dlsym(opened, symbol.name);
    if (found == nullptr) return std::string("it lacks the function ") + symbol.name;
    *static_cast<void**>(symbol.slot) = found;
  }
  if (the_library.abi_version() != FARANDOLE_ABI_VERSION) {
    return "it has ABI version " + std::to_string(the_library.abi_version()) + ", and this adapter was built for " +
           std::to_string(FARANDOLE_ABI_VERSION);
  }
  is_connected = true;
  return "";
}

}  // namespace

const WorkerLibrary& Worker() { return the_library; }
bool HasWorkerLibrary() { return is_connected; }

}  // namespace farandole::adapter

extern "C" const char* farandole_adapter_connect(const char* path, int deepbind) {
  static std::string* reason = new std::string();
  *reason = farandole::adapter::Connect(path, deepbind != 0);
  return reason->empty() ? nullptr : reason->c_str();
}

extern "C" void* farandole_adapter_replace(const char* name, void* function) {
  for (const farandole::adapter::Symbol& symbol : farandole::adapter::kSymbols) {
    if (strcmp(symbol.name, name) == 0) return std::exchange(*static_cast<void**>(symbol.slot), function);
  }
  return nullptr;
}
