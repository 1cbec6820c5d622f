#ifndef FARANDOLE_WEB_HTTP_MESSAGE_H_
#define FARANDOLE_WEB_HTTP_MESSAGE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace farandole {

// What the HTTP edge tells a route about a request.
struct HttpRequest {
  std::string method;
  // Without the query.
  std::string path;
  // What follows the first '?'; "" for none.
  std::string query;
  // The token of `Authorization: Bearer TOKEN`; "" for none.
  std::string token;
  std::string body;
};

struct HttpReply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  // Headers beside those that the edge writes itself.
  std::vector<std::pair<std::string, std::string>> headers;
};

// What a token may see.
enum class HttpAccess { kNobody, kTenant, kAdmin };

// One path that the edge answers. `answer` is called on the edge's thread and must not block; it is called only for
// requests whose token has the access that the route needs.
struct HttpRoute {
  std::string method;
  std::string path;
  HttpAccess needs = HttpAccess::kAdmin;
  std::function<HttpReply(const HttpRequest&)> answer;
};

// What the edge serves, given by whoever owns it.
struct HttpSite {
  std::vector<HttpRoute> routes;
  // On the edge's thread; must not block.
  std::function<HttpAccess(const std::string& token)> access_of;
};

// {"error": sentence}
HttpReply HttpError(unsigned status, const std::string& sentence);

// The site's answer: that of the route, or 404 for an unknown path, 405 for another method, 401 without a known token
// where one is needed, 403 for one that is not enough.
HttpReply AnswerHttp(const HttpSite& site, const HttpRequest& request);

}  // namespace farandole

#endif  // FARANDOLE_WEB_HTTP_MESSAGE_H_
