#ifndef FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_

#include <vector>

#include "server/edge/call_router.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// Changes of a job that there is, for callers with a token that may make them. The audit log has each.
//   POST /api/v1/jobs/NAME/abort[?tenant=NAME]  ends the job; the body is the reason, at most 1,024 bytes
//   POST /api/v1/jobs/NAME/drain[?tenant=NAME]&rank=N  has a worker of an elastic job leave at the next commit, or with
//                                               host=NAME in the place of rank= all of that host; the body is the
//                                               reason; "ranks" are those that were asked. 400: neither or both are
//                                               given; 404, 409: as AdminService.DrainWorkers
//   GET  /api/v1/jobs/NAME/checkpoint           "may_request": whether the caller's role lets it ask its own jobs
//   POST /api/v1/jobs/NAME/checkpoint[?tenant=NAME]  asks its program for a checkpoint; the answer is the pending
//                                                    request, as "wanted_checkpoint" of the job's view has it
// All outlive the routes.
std::vector<HttpRoute> ActionRoutes(CallRouter* router, const JobRegistry* registry);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_
