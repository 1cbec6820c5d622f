#ifndef FARANDOLE_WEB_HTTP_MESSAGE_H_
#define FARANDOLE_WEB_HTTP_MESSAGE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/cluster_owner.h"
#include "web/event_stream.h"

namespace farandole {

// The cookie that carries a session (web/sign_in.h).
inline constexpr char kSessionCookie[] = "farandole_session";
// The cookie of a browser that signs in with an identity provider.
inline constexpr char kSignInCookie[] = "farandole_sign_in";

// A request, as the HTTP edge gives it to a route.
struct HttpRequest {
  std::string method;
  // Without the query.
  std::string path;
  // The text after the first '?'; "" for none.
  std::string query;
  // The token of `Authorization: Bearer TOKEN`; "" for none.
  std::string token;
  // The cookie kSessionCookie; "" for none.
  std::string session;
  // The cookie kSignInCookie; "" for none.
  std::string sign_in;
  // The header Last-Event-ID, by which a reader goes on with a stream; "" for none.
  std::string last_event;
  // The headers Origin and Host; "" for none.
  std::string origin;
  std::string host;
  // The client takes replies that gzip has compressed.
  bool takes_gzip = false;
  // A proxy before the edge says that the client speaks TLS with it.
  bool is_behind_tls = false;
  // The client's address, without its port.
  std::string peer;
  std::string body;
};

struct HttpReply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  // Headers beside those that the edge writes itself.
  std::vector<std::pair<std::string, std::string>> headers;
  // Set: writes the body later, so that the thread that answers does not have to. On the edge's thread, unless
  // `turn_of` is set.
  std::function<void(HttpReply*)> complete;
  // Set beside `complete`, which may take long then: a thread for such replies calls it, in this owner's turn
  // (OwnerOf).
  std::string turn_of;
  // Set beside `turn_of`: it may take seconds. Replies that do not are written by other threads.
  bool is_long = false;
  // The edge may compress the body. Only where it has no secret beside text that another one has chosen: its length
  // would tell of the secret (BREACH). Pages, sign-in and sessions never set it.
  bool may_compress = false;
  // Kept until the reply is written, or its connection has ended. shared: a reply is copied on its way.
  std::shared_ptr<const void> held;
  // Set: the reply has no body of its own, and goes on with what its writer sends.
  std::shared_ptr<EventStream> stream;
};

// A token lets see nothing, its tenant's jobs, those of all, and the coordinator itself; each also what the ones
// before it do.
enum class HttpAccess { kNobody, kTenant, kAllTenants, kAdmin };

// The owner of a token.
struct HttpIdentity {
  HttpAccess access = HttpAccess::kNobody;
  std::string tenant;
  // For the audit log.
  std::string who = {};
  // The number of the token's role, and its id: for routes that change something. The edge does not look at them.
  int role = 0;
  std::string token_id = {};
  // Of a signed token: its issuer's name and its subject; else "".
  std::string signer = {};
  std::string subject = {};
};

// The owner of the places, turns and sessions that a caller has: its tenant, or kClusterOwner. Tokens of the cluster's
// roles are of a tenant, too, whose members shall not push them out.
std::string OwnerOf(const HttpIdentity& identity);

// The sender of a request. The edge answers with the refusal, if there is one, and does not look at the request.
struct HttpCaller {
  HttpIdentity identity;
  std::optional<HttpReply> refusal;
};

// Takes the reply to one request. To be called once, from any thread, before the edge's end.
using HttpAnswer = std::function<void(HttpReply)>;

// One path that the edge answers. A part "*" of it stands for any part, of at least one byte. `serve` is called on the
// edge's thread and must not block; it is called only for requests whose caller has the access that the route needs.
// Where that is kNobody, the identity is not looked for.
struct HttpRoute {
  std::string method;
  std::string path;
  HttpAccess needs = HttpAccess::kAdmin;
  std::function<void(const HttpRequest&, const HttpIdentity&, HttpAnswer)> serve;
};

// A route that has its reply at once.
HttpRoute DirectRoute(std::string method, std::string path, HttpAccess needs,
                      std::function<HttpReply(const HttpRequest&)> reply);

// The pages that the edge serves, given by the edge's owner.
struct HttpSite {
  std::vector<HttpRoute> routes;
  // On the edge's thread; must not block.
  std::function<HttpCaller(const HttpRequest&)> caller_of;
  // A request was answered 401 or 403; any thread. May be null.
  std::function<void(const HttpRequest&, const HttpIdentity&, unsigned status)> on_denied;
  // Called four times a second on the edge's thread; must not block. May be null.
  std::function<void()> tick;
};

// A browser sends it for a page of another site.
bool IsFromElsewhere(const HttpRequest& request);

// {"error": sentence}
HttpReply HttpError(unsigned status, const std::string& sentence);

// Answers with what the site says: the route's reply, or 404 for an unknown path, 405 for another method, 401 without a
// known token where one is needed, 403 for one that is not enough, or the caller's refusal. Gives the caller's access
// where the route looks for it.
HttpIdentity AnswerHttp(const HttpSite& site, const HttpRequest& request, HttpAnswer answer);

}  // namespace farandole

#endif  // FARANDOLE_WEB_HTTP_MESSAGE_H_
