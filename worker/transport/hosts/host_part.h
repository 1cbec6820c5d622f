#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_HOST_PART_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_HOST_PART_H_

#include <cstdint>

namespace farandole {

// A rank's work on its own host for a HostsAllreduce, which owns it and calls it: chunk by chunk it takes the rank's
// contribution, combines those of the host for the share that the rank owns, and brings results into the tensors. Each
// of the steps is done once for every chunk, in ascending order, and only while its predicate gives true.
class HostPart {
 public:
  virtual ~HostPart() = default;

  // Takes this rank's contribution.
  virtual bool CanContribute(int64_t chunk) = 0;
  virtual void Contribute(int64_t chunk) = 0;

  // Owners: combines the contributions of the host's ranks to the own share.
  virtual bool CanCombine(int64_t chunk) = 0;
  virtual void Combine(int64_t chunk) = 0;
  // Where the combined element lies from then on, and where to put its result, which may be the same place.
  virtual const char* Combined(int64_t chunk, int64_t element) = 0;
  virtual char* ResultPlace(int64_t chunk, int64_t element) = 0;
  // Owners: all results of the own share are in their place.
  virtual void Publish(int64_t chunk) = 0;

  // Brings the results into this rank's tensors. Then the places of the chunk may be used again.
  virtual bool CanCollect(int64_t chunk) = 0;
  virtual void Collect(int64_t chunk) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_HOST_PART_H_
