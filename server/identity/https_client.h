#ifndef FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_
#define FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

struct HttpsUrl {
  // By HTTP, without TLS.
  bool is_plain = false;
  // A name or an address, without brackets.
  std::string host;
  std::string port = "443";
  // The path with its query, from "/" on.
  std::string target = "/";

  // The header Host: an IPv6 address in brackets, and the port where it is not the scheme's.
  std::string HostHeader() const;
};

// INVALID_ARGUMENT: the text is no "https://HOST[:PORT][/PATH]", or has a user's name or a fragment.
absl::StatusOr<HttpsUrl> ParseHttpsUrl(absl::string_view text);
// As ParseHttpsUrl, and takes "http://HOST[:PORT][/PATH]" as well.
absl::StatusOr<HttpsUrl> ParseHttpUrl(absl::string_view text);
// For people and logs: without user and password, and without the query, which may have a key.
std::string ShownUrl(absl::string_view url);

class HttpsExchange;

// Ends requests early, from another thread.
class RequestEnd {
 public:
  // The requests that are under way end with CANCELLED, and so do later ones. It returns soon; only while the system is
  // looking up a host's name, a request waits for that.
  void Cancel();

 private:
  friend class HttpsExchange;
  // False: it is cancelled. `stop` may be called from any thread until Leave.
  bool Enter(const HttpsExchange* exchange, std::function<void()> stop);
  void Leave(const HttpsExchange* exchange);

  std::mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<const HttpsExchange*, std::function<void()>> stops_ ABSL_GUARDED_BY(mutex_);
};

struct HttpsRequest {
  std::string url;
  // Sent by POST; "": a GET.
  std::string body;
  std::string content_type = "application/x-www-form-urlencoded";
  std::vector<std::pair<std::string, std::string>> headers;
  // The URL may be one of HTTP.
  bool may_be_plain = false;
  // Certificates, PEM, that the server's descends from; "": those of the system.
  std::string ca_pem;
  // For all of it, from the host's name to the reply's end.
  absl::Duration timeout = absl::Seconds(10);
  size_t most_bytes = 256 << 10;
  // Null: the request ends by itself only.
  RequestEnd* end = nullptr;
};

struct HttpsReply {
  unsigned status = 0;
  // The headers Location and Retry-After; "" for none.
  std::string location;
  std::string retry_after;
  std::string body;
};

// Asks, and waits for the reply: for threads that may wait. Follows no redirection. Errors name the host.
//   INVALID_ARGUMENT   the URL is none
//   CANCELLED          by request.end
//   DEADLINE_EXCEEDED  the time was over
//   UNAVAILABLE        the server cannot be reached, proves another name, or does not speak HTTP
absl::StatusOr<HttpsReply> AskByHttps(const HttpsRequest& request);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_
