#ifndef FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_

#include <memory>
#include <vector>

#include "server/edge/call_router.h"
#include "server/edge/routes/file_places.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// Tenants, their launches that wait, their tokens, and who has changed what:
//   GET /api/v1/rights   the caller's token: "who", "tenant", "role"; "sees_all_tenants", "may_end_jobs" (of a
//                        launcher: its own), "may_manage_tokens", "may_manage_tenants", "may_read_audit",
//                        "may_see_metrics"
//   GET /api/v1/queue    launches that wait, by pool (a cohort, or a tenant of none) in the order in which they are to
//                        start. Of the caller's tenant; with a role of the cluster of all
//   GET /api/v1/tenants  quotas, and what is used of them (web/access_json.h); search= chooses by name. Of the same
//                        tenants
//   GET /api/v1/tokens   tokens without their texts; tenant= chooses. Needs Right::kManageTokens: an admin sees those
//                        of its tenant, root all
//   GET /api/v1/audit    "lines", the newest first; before= goes on from "next", which is "" at the end: a part may
//                        have few lines where more are to come. "is_kept": false where there is no state directory.
//                        Needs Right::kReadAudit: an admin sees the changes by its tenant's tokens, signed tokens,
//                        certificates and runs; root all, and with chain=denials who was denied what
// Lists have "found" and "now_unix_ms"; offset= and limit= (100, at most kMostRows) choose. An audit's part has 100
// lines at most. `places`: for bytes of replies. All outlive the routes.
std::vector<HttpRoute> AccessRoutes(CallRouter* router, const JobRegistry* registry,
                                    const std::shared_ptr<FilePlaces>& places);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_
