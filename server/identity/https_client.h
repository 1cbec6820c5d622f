#ifndef FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_
#define FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farandole {

struct HttpsUrl {
  // A name or an address, without brackets.
  std::string host;
  std::string port = "443";
  // The path with its query, from "/" on.
  std::string target = "/";

  // The header Host: an IPv6 address in brackets, and the port where it is not 443.
  std::string HostHeader() const;
};

// INVALID_ARGUMENT: the text is no "https://HOST[:PORT][/PATH]", or has a user's name or a fragment.
absl::StatusOr<HttpsUrl> ParseHttpsUrl(absl::string_view text);

struct HttpsRequest {
  std::string url;
  // A form, sent by POST; "": a GET.
  std::string form;
  // Certificates, PEM, that the server's descends from; "": those of the system.
  std::string ca_pem;
  // For all of it, from the host's name to the reply's end.
  absl::Duration timeout = absl::Seconds(10);
  size_t most_bytes = 256 << 10;
};

struct HttpsReply {
  unsigned status = 0;
  // The header Location; "" for none.
  std::string location;
  std::string body;
};

// Asks, and waits for the reply: for threads that may wait. Follows no redirection. Errors name the host.
//   INVALID_ARGUMENT   the URL is none
//   DEADLINE_EXCEEDED  the time was over
//   UNAVAILABLE        the server cannot be reached, proves another name, or does not speak HTTP
absl::StatusOr<HttpsReply> AskByHttps(const HttpsRequest& request);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_HTTPS_CLIENT_H_
