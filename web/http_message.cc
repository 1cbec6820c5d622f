#include "web/http_message.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace farandole {

HttpReply HttpError(unsigned status, const std::string& sentence) {
  HttpReply reply;
  reply.status = status;
  // What a client sent may be quoted in the sentence; bytes that are no UTF-8 are replaced.
  reply.body =
      nlohmann::json{{"error", sentence}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return reply;
}

HttpReply AnswerHttp(const HttpSite& site, const HttpRequest& request) {
  const auto same_path = [&](const HttpRoute& route) { return route.path == request.path; };
  const auto known = std::find_if(site.routes.begin(), site.routes.end(), same_path);
  if (known == site.routes.end()) return HttpError(404, "there is nothing at " + request.path);
  const auto route = std::find_if(site.routes.begin(), site.routes.end(), [&](const HttpRoute& candidate) {
    return same_path(candidate) && candidate.method == request.method;
  });
  if (route == site.routes.end()) {
    HttpReply reply = HttpError(405, request.path + " answers " + known->method + ", not " + request.method);
    reply.headers.emplace_back("Allow", known->method);
    return reply;
  }
  if (route->needs != HttpAccess::kNobody) {
    const HttpAccess access = request.token.empty() ? HttpAccess::kNobody : site.access_of(request.token);
    if (access == HttpAccess::kNobody) {
      HttpReply reply =
          HttpError(401, request.path + " needs the header `Authorization: Bearer TOKEN` with a known token");
      reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"farandole\"");
      return reply;
    }
    if (route->needs == HttpAccess::kAdmin && access != HttpAccess::kAdmin) {
      return HttpError(403, request.path + " needs an admin token");
    }
  }
  return route->answer(request);
}

}  // namespace farandole
