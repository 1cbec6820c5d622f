#ifndef FARANDOLE_SERVER_EDGE_ROUTES_HISTORY_QUERY_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_HISTORY_QUERY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/job/rules/event.h"

namespace farandole {

// The history that a query asks for: rank= (a number; "all": the job in all), of epoch=, or host= (a host's id); and
// range= (10m, 1h, 6h, 3d, 30d, all), without which it has all points that there are. nullopt: neither rank= nor host=
// is there. INVALID_ARGUMENT: one of them is something else, or both are there. Pure.
absl::StatusOr<std::optional<HistoryAsked>> HistoryIn(absl::string_view query);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_HISTORY_QUERY_H_
