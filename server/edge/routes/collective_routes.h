#ifndef FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_

#include <vector>

#include "server/edge/call_router.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// Which tensors cost a job time, for callers with a token that shows it; MonitorService.SurveyCollectives has the same.
//   GET /api/v1/jobs/NAME/collectives  asks the ranks, 4 s at most, or takes what they have said some seconds ago: they
//                                      are not asked more often, however many ask. The fields of
//                                      web/files/collectives_json.h, or "state": "none" with the sentence "why"
// It changes nothing: the audit log has no line. `router` and `registry` outlive the routes.
std::vector<HttpRoute> CollectiveRoutes(CallRouter* router, const JobRegistry* registry);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_
