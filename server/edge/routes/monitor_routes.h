#ifndef FARANDOLE_SERVER_EDGE_ROUTES_MONITOR_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_MONITOR_ROUTES_H_

#include <vector>

#include "server/edge/call_router.h"
#include "server/edge/job_views.h"
#include "server/edge/live_events.h"
#include "server/registry/job_registry.h"
#include "server/store/store.h"
#include "web/http_message.h"

namespace farandole {

// The sources of the answers; all of them outlive the routes.
struct MonitorSources {
  CallRouter* router;
  const JobRegistry* registry;
  const Store* store;
  JobViews* views;
  LiveEvents* events;
};

// The answers of MonitorService as JSON over HTTP, for callers with a token:
//   GET /api/v1/jobs                     {"jobs": [...], "now_unix_ms": ..., "store_trouble": ...}, the newest first;
//                                        search=, state= (again and again), order=urgency choose, offset= and limit=
//                                        (at most 1,000) say which of them are told
//   GET /api/v1/jobs/NAME[?tenant=NAME]  one job with "workers", "history" and "checkpoints"; another tenant's with an
//                                        a cluster role only; with view= the part of it that a page shows
//                                        (view_json.h); with what history_query.h has, its "rank_history"
//   GET /api/v1/jobs/NAME/metrics        what its programs have logged (web/logged_text.h); format=csv, name= (again
//                                        and again) choose
//   GET /api/v1/events                   what changes, as server-sent events (live_events.h)
// and those of access_routes.h, action_routes.h, hang_routes.h and timeline_routes.h.
// 429 with Retry-After: the caller's tenant looks faster than it may, or replies to others of its callers are under way
// that are as many, or as long, as they may be.
// The fields are those of web/job_json.h; an error is {"error": SENTENCE} with the status that its code comes nearest
// to.
std::vector<HttpRoute> MonitorRoutes(MonitorSources sources);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_MONITOR_ROUTES_H_
