#ifndef FARANDOLE_SERVER_EDGE_ROUTES_HANG_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_HANG_ROUTES_H_

#include <memory>
#include <vector>

#include "server/edge/call_router.h"
#include "server/edge/routes/file_places.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// For archives, and for the other answers. Shared by all routes that make files, or answer about whole jobs.
struct HangPlaces {
  std::shared_ptr<FilePlaces> files;
  std::shared_ptr<FilePlaces> whole_jobs;
};

// The evidence of who waits for whom in a job, for callers with a token that shows it; MonitorService.Diagnose has the
// same.
//   GET  /api/v1/jobs/NAME/hang          what is kept of its last stall, or of its end; asks no worker. The fields of
//                                        web/files/hang_json.h with "state": "kept"; or "none" (it has not stalled),
//                                        "gathering" (its ranks are being asked), "gone", each with the sentence "why"
//   GET  /api/v1/jobs/NAME/hang/archive  the same as a .tar.gz with everything; 404, 409 or 503 where nothing is kept
//   POST /api/v1/jobs/NAME/stacks        asks the ranks now, which takes 4 s at most; "state": "asked". format=archive:
//                                        the .tar.gz. The audit log has it; 404: there is no such job, and no line
// An archive takes 2 MiB of evidence and names the ranks that it leaves out; 429: the caller's tenant has its places in
// use. `router` and `registry` outlive the routes.
std::vector<HttpRoute> HangRoutes(CallRouter* router, const JobRegistry* registry, const HangPlaces& places);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_HANG_ROUTES_H_
