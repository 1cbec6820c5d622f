#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/transport/tcp/interface_address.h"

namespace farandole::launcher {

// The value that tells NCCL which interfaces workers use (NCCL_SOCKET_IFNAME: "=eth0,eth1"), which has names where
// FARANDOLE_NETWORK_INTERFACES, or Horovod's HOROVOD_GLOO_IFACE, may have addresses and networks. "": nothing, as none
// are wanted, one of them is not here, which the worker says, or the user has told NCCL himself. `variables`: the
// workers' environment, "NAME=value". `list`: gives this host's addresses (ListInterfaceAddresses), and is
// asked where it matters.
std::string NcclInterfaces(const std::vector<std::string>& variables,
                           absl::FunctionRef<absl::StatusOr<std::vector<InterfaceAddress>>()> list);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_
