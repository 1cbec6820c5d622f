#ifndef FARANDOLE_SERVER_EDGE_PROCESS_MEMORY_H_
#define FARANDOLE_SERVER_EDGE_PROCESS_MEMORY_H_

#include <cstdint>
#include <string>

namespace farandole {

// The least of the machine's memory and of the limits of the control groups (cgroup v2) that this process is in, in
// bytes.
uint64_t MemoryOfProcess();
// The part of it that gRPC shares among all connections' buffers.
uint64_t BufferBytesOfProcess();

// The least memory.max of the group that `self_cgroup`, the text of /proc/self/cgroup, names and of those above it,
// below `root`; UINT64_MAX: there is no limit.
uint64_t GroupMemoryLimit(const std::string& self_cgroup, const std::string& root);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_PROCESS_MEMORY_H_
