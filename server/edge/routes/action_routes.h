#ifndef FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_

#include <vector>

#include "server/edge/call_router.h"
#include "web/http_message.h"

namespace farandole {

// Changes of a job, for callers with a token that may make them. The audit log has each.
//   POST /api/v1/jobs/NAME/abort[?tenant=NAME]  ends the job; the body is the reason, at most 1,024 bytes
// `router` outlives the routes.
std::vector<HttpRoute> ActionRoutes(CallRouter* router);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_ACTION_ROUTES_H_
