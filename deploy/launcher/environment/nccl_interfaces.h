#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/transport/tcp/interface_address.h"

namespace farandole::launcher {

// Computes NCCL_SOCKET_IFNAME for the workers ("=eth0,eth1") from FARANDOLE_NETWORK_INTERFACES or HOROVOD_GLOO_IFACE,
// which may hold addresses and networks where NCCL wants the names of interfaces. Returns "" if neither variable is
// set, if the user has set NCCL_SOCKET_IFNAME, or if this host lacks a wanted interface (the worker reports that).
// `variables`: the workers' environment, "NAME=value". `list` returns this host's addresses (ListInterfaceAddresses);
// it is called only if needed.
std::string NcclInterfaces(const std::vector<std::string>& variables,
                           absl::FunctionRef<absl::StatusOr<std::vector<InterfaceAddress>>()> list);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_NCCL_INTERFACES_H_
