#ifndef FARANDOLE_WORKER_DEVICE_FAKE_FAKE_NCCL_H_
#define FARANDOLE_WORKER_DEVICE_FAKE_FAKE_NCCL_H_

#include "worker/device/nccl_library.h"

namespace farandole {

class FakeGpus;

// The part of FakeGpus that is NCCL: communicators that do not block, whose calls are enqueued only after a few queries
// about them, and collectives that run when all ranks' streams have reached them. Ranks whose calls differ are a failed
// check.
void FillFakeNccl(NcclLibrary* nccl);

// Those that are there, for the functions behind the tables; and whether the calling thread is in a context of theirs.
FakeGpus& TheFakeGpus();
bool IsInFakeContext();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FAKE_FAKE_NCCL_H_
