#include "deploy/launcher/environment/nccl_interfaces.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/launcher/environment/worker_environment.h"

namespace farandole::launcher {

std::string NcclInterfaces(const std::vector<std::string>& variables,
                           absl::FunctionRef<absl::StatusOr<std::vector<InterfaceAddress>>()> list) {
  if (!ValueOf(variables, "NCCL_SOCKET_IFNAME").empty()) return "";
  std::string listed = ValueOf(variables, "FARANDOLE_NETWORK_INTERFACES");
  if (listed.empty()) listed = ValueOf(variables, "HOROVOD_GLOO_IFACE");
  const std::vector<std::string> wanted = absl::StrSplit(listed, ',', absl::SkipWhitespace());
  if (wanted.empty()) return "";
  const absl::StatusOr<std::vector<InterfaceAddress>> own = list();
  if (!own.ok()) return "";
  const absl::StatusOr<std::vector<InterfaceAddress>> chosen = ChooseAddresses(*own, wanted);
  if (!chosen.ok()) return "";
  std::vector<std::string> names;
  for (const InterfaceAddress& address : *chosen) {
    if (!absl::c_linear_search(names, address.interface)) names.push_back(address.interface);
  }
  // Without the sign they are the beginnings of names.
  return absl::StrCat("=", absl::StrJoin(names, ","));
}

}  // namespace farandole::launcher
