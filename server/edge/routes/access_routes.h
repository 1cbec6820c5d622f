#ifndef FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_

#include <vector>

#include "server/edge/call_router.h"
#include "web/http_message.h"

namespace farandole {

// The caller's token, so that pages show what it may do and nothing else:
//   GET /api/v1/rights  "who", "tenant", "role"; "sees_all_tenants", "may_end_jobs" (of a launcher's token: its own)
// `router` outlives the routes.
std::vector<HttpRoute> AccessRoutes(CallRouter* router);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_ACCESS_ROUTES_H_
