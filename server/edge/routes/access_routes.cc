#include "server/edge/routes/access_routes.h"

#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "web/access_json.h"

namespace farandole {
namespace {

constexpr char kRights[] = "/api/v1/rights";

HttpReply TellRights(CallRouter* router, const HttpIdentity& identity) {
  const Access access = AccessOf(identity);
  if (absl::Status pace = router->TakePace(access, Right::kView); !pace.ok()) return Refuse(pace);
  return Reply200({{"who", identity.who},
                   {"tenant", access.tenant},
                   {"role", RoleText(access.role)},
                   {"sees_all_tenants", IsOfCluster(access.role)},
                   {"may_end_jobs", Has(access.role, Right::kControlOwn)}});
}

}  // namespace

std::vector<HttpRoute> AccessRoutes(CallRouter* router) {
  std::vector<HttpRoute> routes;
  routes.push_back({"GET", kRights, HttpAccess::kTenant,
                    [router](const HttpRequest&, const HttpIdentity& identity, const HttpAnswer& answer) {
                      answer(TellRights(router, identity));
                    }});
  return routes;
}

}  // namespace farandole
