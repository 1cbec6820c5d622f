#ifndef FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_ROUTES_H_

#include <memory>
#include <vector>

#include "server/edge/call_router.h"
#include "server/edge/routes/file_places.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// A job's timeline, for callers with a token; MonitorService.GetTimeline and AdminService.RecordTimeline have the same.
//   GET  /api/v1/jobs/NAME/timeline       "recording" (its number; 0: there was none), "is_on", "started_unix_ms",
//                                         "dropped", "forgotten"; "may_record": whether the caller may start and stop
//   GET  /api/v1/jobs/NAME/timeline/file  what there is of it, for Perfetto and chrome://tracing. 404: there is none;
//                                         413: it is more than 32 MiB, packed and unpacked together, for which there
//                                         is `farandole timeline get`; 429: the caller's tenant has its place in use
//   POST /api/v1/jobs/NAME/timeline       record=on or record=off; "sentence" says what has happened. 400: neither. The
//                                         audit log has it; 404: there is no such job, and no line
// `router` and `registry` outlive the routes. `places`: shared by all routes that make files.
std::vector<HttpRoute> TimelineRoutes(CallRouter* router, const JobRegistry* registry,
                                      const std::shared_ptr<FilePlaces>& places);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_TIMELINE_ROUTES_H_
