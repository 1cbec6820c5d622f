#ifndef FARANDOLE_WEB_ACCESS_JSON_H_
#define FARANDOLE_WEB_ACCESS_JSON_H_

#include <string>

#include "farandole/v1/access.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace farandole {

// Tokens and tenants as programs read them, from the HTTP edge's /api/v1 and from the commands with `--json` alike.
// Field names are those of proto/farandole/v1/access.proto.

// As commands and JSON name it: "cluster-operator".
std::string RoleText(v1::Role role);
// All that is known of a token; its text is not among it.
nlohmann::ordered_json TokenJson(const v1::Token& token);
nlohmann::ordered_json QuotaJson(const v1::TenantSummary& tenant);
// The quota's fields, and what the tenant uses of it.
nlohmann::ordered_json TenantJson(const v1::TenantSummary& tenant);

}  // namespace farandole

#endif  // FARANDOLE_WEB_ACCESS_JSON_H_
