#ifndef FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_

#include <memory>
#include <vector>

#include "farandole/v1/monitor.pb.h"
#include "server/edge/call_router.h"
#include "server/edge/routes/file_places.h"
#include "server/registry/job_registry.h"
#include "web/http_message.h"

namespace farandole {

// Which tensors cost a job time, for callers with a token that shows it; MonitorService.SurveyCollectives has the same.
//   GET /api/v1/jobs/NAME/collectives  asks the ranks, 4 s at most, or takes what they have said some seconds ago: they
//                                      are not asked more often, however many ask. The fields of
//                                      web/files/collectives_json.h, or "state": "none" with the sentence "why"
// It changes nothing: the audit log has no line. `router` and `registry` outlive the routes; `bytes` are those of
// pages.
std::vector<HttpRoute> CollectiveRoutes(CallRouter* router, const JobRegistry* registry,
                                        std::shared_ptr<FilePlaces> bytes);

// The reply to `reader`, who has paid for `found`: written later, in the tenant's turn, where its bytes have a place.
HttpReply CollectivesReply(v1::SurveyCollectivesResponse found, const HttpIdentity& reader,
                           std::shared_ptr<FilePlaces> bytes);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_COLLECTIVE_ROUTES_H_
