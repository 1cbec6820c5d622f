#ifndef FARANDOLE_SDK_CPP_FARANDOLE_LIBRARY_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_LIBRARY_H_

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "farandole/c_api.h"
#include "farandole/c_client_api.h"
#include "farandole/options.h"
#include "farandole/status.h"

// The functions of the C interface that the SDK calls, each without its farandole_.
// clang-format off
#define FARANDOLE_SDK_FUNCTIONS(X)                                                                                 \
  X(abi_version) X(version) X(last_error) X(init) X(shutdown) X(fail) X(rejoin) X(is_elastic) X(change_wanted)     \
  X(change_sentence) X(depart) X(is_initialized) X(rank) X(size) X(local_rank) X(local_size) X(cross_rank)         \
  X(cross_size) X(is_homogeneous) X(epoch) X(use_stream) X(gpu_transport) X(nccl_version) X(epoch_ended)           \
  X(add_group) X(remove_group) X(group_rank) X(group_size) X(allreduce) X(allreduce_now) X(grouped_allreduce)      \
  X(allgather) X(alltoall) X(gather) X(scatter) X(broadcast) X(reducescatter) X(join) X(barrier) X(arena_create)   \
  X(arena_address) X(arena_release) X(poll) X(wait) X(finish) X(result) X(copy_result) X(release)                  \
  X(checkpoint_begin) X(checkpoint_commit) X(checkpoint_fail) X(checkpoint_abandon) X(checkpoint_find)             \
  X(start_timeline) X(stop_timeline) X(read_counters) X(client_open) X(client_close) X(client_call) X(log)         \
  X(checkpoint_requested) X(section_begin) X(section_end) X(prove)
// clang-format on

namespace farandole {
inline namespace sdk {

#define FARANDOLE_SDK_MEMBER(name) decltype(&::farandole_##name) name = nullptr;
/// Where the worker library has its functions.
struct Functions {
  FARANDOLE_SDK_FUNCTIONS(FARANDOLE_SDK_MEMBER)
};
#undef FARANDOLE_SDK_MEMBER

/// The status for a code that this thread's last call has returned.
inline Status StatusOf(const Functions& functions, int code) {
  if (code == FARANDOLE_OK) return Status();
  return Status(static_cast<StatusCode>(code), functions.last_error());
}

/// Opens the worker library, in a symbol scope of its own: its gRPC, protobuf and Abseil never meet the program's
/// (docs/decisions/0019-cpp-sdk.md). The library stays until the process ends.
inline StatusOr<Functions> OpenLibrary(const LibraryOptions& options) {
  const auto failed = [&options](const std::string& why) {
    return Status(StatusCode::kFailedPrecondition, "the worker library " + options.path + " cannot be loaded: " + why +
                                                       "; set FARANDOLE_LIBRARY to the path of libfarandole.so");
  };
  void* const library = dlopen(options.path.c_str(), RTLD_NOW | RTLD_LOCAL | options.deepbind);
  if (library == nullptr) return failed(dlerror());
  Functions found;
  const char* missing = nullptr;
  const auto resolve = [library, &missing](const char* name, auto* function) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(symbol);
  };
#define FARANDOLE_SDK_RESOLVE(name) resolve("farandole_" #name, &found.name);
  FARANDOLE_SDK_FUNCTIONS(FARANDOLE_SDK_RESOLVE)
#undef FARANDOLE_SDK_RESOLVE
  if (missing != nullptr) return failed(std::string("it lacks the function ") + missing);
  if (const int version = found.abi_version(); version != FARANDOLE_ABI_VERSION) {
    return failed("it has ABI version " + std::to_string(version) + ", but this program was built for " +
                  std::to_string(FARANDOLE_ABI_VERSION));
  }
  return found;
}

/// The process's worker library, which the first call opens. Any thread.
inline const StatusOr<Functions>& Library() {
  static const StatusOr<Functions> library = OpenLibrary(LibraryOptions::FromEnvironment());
  return library;
}

/// A function in place of one of the library's, for a caller whose part in the job is over: it does nothing, and gives
/// FAILED_PRECONDITION, or minus that where the result is a handle.
template <typename Function>
struct Refusal;
template <typename Result, typename... Arguments>
struct Refusal<Result (*)(Arguments...)> {
  static Result Refuse(Arguments...) {
    if constexpr (std::is_same_v<Result, const char*>) {
      return "";
    } else if constexpr (std::is_same_v<Result, void*>) {
      return nullptr;
    } else if constexpr (std::is_same_v<Result, int64_t>) {
      return -static_cast<int64_t>(FARANDOLE_FAILED_PRECONDITION);
    } else if constexpr (!std::is_void_v<Result>) {
      return static_cast<Result>(FARANDOLE_FAILED_PRECONDITION);
    }
  }
};

/// All of these functions. Numbers of the job are minus FAILED_PRECONDITION, as the library's before farandole_init.
[[gnu::noinline, gnu::cold]] inline const Functions& RefusingFunctions() {
  static const Functions refusing = [] {
    Functions made;
#define FARANDOLE_SDK_REFUSE(name) made.name = &Refusal<decltype(made.name)>::Refuse;
    FARANDOLE_SDK_FUNCTIONS(FARANDOLE_SDK_REFUSE)
#undef FARANDOLE_SDK_REFUSE
    int (*const no_number)() = [] { return -static_cast<int>(FARANDOLE_FAILED_PRECONDITION); };
    made.rank = made.size = made.local_rank = made.local_size = made.cross_rank = made.cross_size = no_number;
    made.group_rank = made.group_size = [](int32_t) { return -static_cast<int>(FARANDOLE_FAILED_PRECONDITION); };
    made.poll = [](farandole_handle) { return -static_cast<int>(FARANDOLE_FAILED_PRECONDITION); };
    made.is_elastic = made.is_initialized = made.is_homogeneous = made.nccl_version = [] { return 0; };
    // There is nothing to end, and nothing counts.
    made.shutdown = [](int (*)()) { return static_cast<int>(FARANDOLE_OK); };
    made.stop_timeline = [] { return static_cast<int>(FARANDOLE_OK); };
    made.section_begin = [](const char*) { return int64_t{0}; };
    made.last_error = [] { return "this Job was shut down or moved from, so that it has no part in a job any more"; };
    return made;
  }();
  return refusing;
}

}  // namespace sdk
}  // namespace farandole

#undef FARANDOLE_SDK_FUNCTIONS

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_LIBRARY_H_
