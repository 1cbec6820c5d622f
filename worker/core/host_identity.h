#ifndef FARANDOLE_WORKER_CORE_HOST_IDENTITY_H_
#define FARANDOLE_WORKER_CORE_HOST_IDENTITY_H_

#include <string>

namespace farandole {

// Equal exactly for processes that can share memory and see each other: same boot of the same kernel, same network and
// process namespaces (containers differ in them), same user; and same `part`, by which one machine is divided into
// several hosts. At most 96 bytes more than `part` has.
std::string HostIdentity(const std::string& part);

// The host's name, for people.
std::string HostName();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_HOST_IDENTITY_H_
