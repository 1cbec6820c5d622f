#ifndef FARANDOLE_WORKER_HOST_IDENTITY_H_
#define FARANDOLE_WORKER_HOST_IDENTITY_H_

#include <string>

namespace farandole {

// Equal exactly for processes that can share memory and see each other: same boot of the same kernel, same network and
// process namespaces (containers differ in them), same user. At most 128 bytes.
std::string HostIdentity();

// The host's name, for people.
std::string HostName();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_HOST_IDENTITY_H_
