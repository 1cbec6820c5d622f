#ifndef FARANDOLE_SDK_ADAPTER_WORKER_LIBRARY_H_
#define FARANDOLE_SDK_ADAPTER_WORKER_LIBRARY_H_

#include "worker/farandole.h"

namespace farandole::adapter {

// The functions of libfarandole.so that adapters call; it is loaded into a scope of its own, so they are found by name.
struct WorkerLibrary {
  decltype(&farandole_abi_version) abi_version;
  decltype(&farandole_last_error) last_error;
  decltype(&farandole_rank) rank;
  decltype(&farandole_size) size;
  decltype(&farandole_local_rank) local_rank;
  decltype(&farandole_local_size) local_size;
  decltype(&farandole_cross_rank) cross_rank;
  decltype(&farandole_cross_size) cross_size;
  decltype(&farandole_epoch) epoch;
  decltype(&farandole_use_stream) use_stream;
  decltype(&farandole_group_rank) group_rank;
  decltype(&farandole_group_size) group_size;
  decltype(&farandole_allreduce) allreduce;
  decltype(&farandole_grouped_allreduce) grouped_allreduce;
  decltype(&farandole_allgather) allgather;
  decltype(&farandole_alltoall) alltoall;
  decltype(&farandole_broadcast) broadcast;
  decltype(&farandole_gather) gather;
  decltype(&farandole_reducescatter) reducescatter;
  decltype(&farandole_scatter) scatter;
  decltype(&farandole_join) join;
  decltype(&farandole_barrier) barrier;
  decltype(&farandole_poll) poll;
  decltype(&farandole_wait) wait;
  decltype(&farandole_wait_for_completion) wait_for_completion;
  decltype(&farandole_result) result;
  decltype(&farandole_copy_result) copy_result;
  decltype(&farandole_release) release;
};

// The library that was connected. No call runs before.
const WorkerLibrary& Worker();
bool HasWorkerLibrary();

}  // namespace farandole::adapter

extern "C" {

// Finds the functions of the worker library at `path`, which the process has opened before with the same flags. NULL:
// done; else the reason, valid until the next call. Called once, before any call runs. Each adapter's library has one.
FARANDOLE_EXPORT const char* farandole_adapter_connect(const char* path, int deepbind);

// For tests, which see by it what the adapter gives to the worker library: from now on `function` runs in the place of
// the one of this name, such as "farandole_allreduce", which is returned. NULL: adapters call no such function. No call
// runs meanwhile.
FARANDOLE_EXPORT void* farandole_adapter_replace(const char* name, void* function);
}

#endif  // FARANDOLE_SDK_ADAPTER_WORKER_LIBRARY_H_
