#ifndef FARANDOLE_DEPLOY_LAUNCHER_NCCL_INTERFACES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_NCCL_INTERFACES_H_

#include <string>
#include <vector>

#include "worker/transport/interface_address.h"

namespace farandole::launcher {

// What NCCL is to be told of the interfaces that workers use (NCCL_SOCKET_IFNAME: "=eth0,eth1"), which has names where
// FARANDOLE_NETWORK_INTERFACES, or Horovod's HOROVOD_GLOO_IFACE, may have addresses and networks. "": nothing, as none
// are wanted, one of them is not here, which the worker says, or the user has told NCCL himself. `variables`: the
// workers' environment, "NAME=value". `own`: this host's addresses.
std::string NcclInterfaces(const std::vector<std::string>& variables, const std::vector<InterfaceAddress>& own);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_NCCL_INTERFACES_H_
