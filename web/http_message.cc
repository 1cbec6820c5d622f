#include "web/http_message.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace farandole {
namespace {

// The part of a path that begins at `*at`, which becomes the beginning of the next one; npos: there is none.
std::string NextPart(const std::string& path, size_t* at) {
  const size_t end = path.find('/', *at);
  const std::string part = path.substr(*at, end == std::string::npos ? end : end - *at);
  *at = end == std::string::npos ? end : end + 1;
  return part;
}

bool IsOfPath(const HttpRoute& route, const std::string& path) {
  size_t of_route = 0, of_path = 0;
  while (of_route != std::string::npos && of_path != std::string::npos) {
    const std::string wanted = NextPart(route.path, &of_route);
    const std::string part = NextPart(path, &of_path);
    if (wanted == "*" ? part.empty() : wanted != part) return false;
  }
  return of_route == of_path;
}

}  // namespace

HttpRoute DirectRoute(std::string method, std::string path, HttpAccess needs,
                      std::function<HttpReply(const HttpRequest&)> reply) {
  return {std::move(method), std::move(path), needs,
          [reply = std::move(reply)](const HttpRequest& request, const HttpIdentity&, const HttpAnswer& answer) {
            answer(reply(request));
          }};
}

// A browser names the site whose form or script it is.
bool IsFromElsewhere(const HttpRequest& request) {
  return !request.origin.empty() && request.origin != "http://" + request.host &&
         request.origin != "https://" + request.host;
}

std::string OwnerOf(const HttpIdentity& identity) {
  return identity.access >= HttpAccess::kAllTenants ? kClusterOwner : identity.tenant;
}

HttpReply HttpError(unsigned status, const std::string& sentence) {
  HttpReply reply;
  reply.status = status;
  // The sentence may quote a client's input: replaces bytes that are no UTF-8.
  reply.body =
      nlohmann::json{{"error", sentence}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return reply;
}

HttpIdentity AnswerHttp(const HttpSite& site, const HttpRequest& request, HttpAnswer answer) {
  HttpCaller caller;
  // The identity that is known when the answer comes.
  const auto identity = std::make_shared<HttpIdentity>();
  if (site.on_denied != nullptr) {
    answer = [tell = site.on_denied, request, identity, next = std::move(answer)](HttpReply reply) {
      if (reply.status == 401 || reply.status == 403) tell(request, *identity, reply.status);
      next(std::move(reply));
    };
  }
  const auto refuse = [&answer](HttpReply reply) {
    answer(std::move(reply));
    return HttpIdentity();
  };
  const auto same_path = [&](const HttpRoute& route) { return IsOfPath(route, request.path); };
  const auto known = std::find_if(site.routes.begin(), site.routes.end(), same_path);
  if (known == site.routes.end()) return refuse(HttpError(404, "there is nothing at " + request.path));
  const auto route = std::find_if(site.routes.begin(), site.routes.end(), [&](const HttpRoute& candidate) {
    return same_path(candidate) && candidate.method == request.method;
  });
  if (route == site.routes.end()) {
    HttpReply reply = HttpError(405, request.path + " answers " + known->method + ", not " + request.method);
    reply.headers.emplace_back("Allow", known->method);
    return refuse(std::move(reply));
  }
  if (route->needs != HttpAccess::kNobody) {
    caller = site.caller_of(request);
    *identity = caller.identity;
    if (caller.refusal.has_value()) return refuse(*std::move(caller.refusal));
    if (caller.identity.access == HttpAccess::kNobody) {
      HttpReply reply =
          HttpError(401, request.path + " needs the header `Authorization: Bearer TOKEN` with a known token");
      reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"farandole\"");
      return refuse(std::move(reply));
    }
    if (caller.identity.access < route->needs) {
      return refuse(HttpError(403, request.path + " needs a token of a cluster operator, or of root"));
    }
  }
  route->serve(request, caller.identity, std::move(answer));
  return caller.identity;
}

}  // namespace farandole
