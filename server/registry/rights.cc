#include "server/registry/rights.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace farandole {

bool Has(v1::Role role, Right right) {
  if (role == v1::ROOT) return true;
  switch (right) {
    case Right::kView:
      return role != v1::ROLE_UNSPECIFIED;
    case Right::kLaunch:
    case Right::kControlOwn:
      return role == v1::LAUNCHER || role == v1::OPERATOR || role == v1::ADMIN;
    case Right::kControl:
    case Right::kDelete:
      return role == v1::OPERATOR || role == v1::ADMIN;
    case Right::kManageTokens:
    case Right::kReadAudit:
      return role == v1::ADMIN;
    case Right::kSeeMetrics:
      return role == v1::CLUSTER_OPERATOR;
    case Right::kManageTenants:
    case Right::kReflect:
      return false;
  }
  return false;
}

bool IsOfCluster(v1::Role role) { return role == v1::AUDITOR || role == v1::CLUSTER_OPERATOR || role == v1::ROOT; }

bool MayGive(v1::Role role, v1::Role other) { return role == v1::ROOT || (role == v1::ADMIN && !IsOfCluster(other)); }

std::string RoleName(v1::Role role) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(v1::Role_Name(role)), {{"_", " "}});
}

std::string Describe(Right right) {
  switch (right) {
    case Right::kView:
      return "look at jobs";
    case Right::kLaunch:
      return "start jobs or join them";
    case Right::kControlOwn:
      return "end jobs, drain their workers or ask them for checkpoints";
    case Right::kControl:
      return "end jobs that it did not launch";
    case Right::kDelete:
      return "delete anything";
    case Right::kManageTokens:
      return "manage tokens";
    case Right::kReadAudit:
      return "read the audit log";
    case Right::kManageTenants:
      return "manage tenants";
    case Right::kSeeMetrics:
      return "see the coordinator's metrics";
    case Right::kReflect:
      return "use server reflection";
  }
  return "";
}

}  // namespace farandole
