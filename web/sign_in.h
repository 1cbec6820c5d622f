#ifndef FARANDOLE_WEB_SIGN_IN_H_
#define FARANDOLE_WEB_SIGN_IN_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "web/http_message.h"
#include "web/session_table.h"
#include "web/wrong_token_limit.h"

namespace farandole {

// Finds the sender of a request. Programs send their token in a header; browsers exchange it for a session's cookie,
// which no script can read and no other site can send. Tokens are never in an address, and never in the log. Owned by
// whoever owns the edge; the edge's thread only.
//
// A right token is never refused because of others' wrong ones: many clients may share an address, and no limit makes a
// token of 256 random bits harder to guess. An address that shows too many wrong ones is answered 429 for them, which
// tells a program that is set up wrongly to slow down.
class SignIn {
 public:
  // `identity_of` compares a token in constant time with those that are known.
  SignIn(std::function<HttpIdentity(const std::string& token)> identity_of, std::function<absl::Time()> clock)
      : identity_of_(std::move(identity_of)), clock_(std::move(clock)) {}

  HttpCaller CallerOf(const HttpRequest& request);

  // Names of the identity providers with which people may sign in, and the paths that lead there; before the first
  // request.
  void SetProviders(std::vector<std::pair<std::string, std::string>> providers) { providers_ = std::move(providers); }

  // GET /login: the form, with a way to each provider.
  HttpReply Form() const;
  // The same with what was wrong; `error` is text, not markup.
  HttpReply FormWith(unsigned status, const std::string& error) const;
  // Opens a session for whom a provider has named, and leads to the page.
  HttpReply OpenFor(HttpIdentity identity, absl::Duration lifetime, bool is_behind_tls);
  // POST /login, with `token=TOKEN` as a form has it: opens a session and leads to the page, or shows the form again
  // with what was wrong.
  HttpReply Open(const HttpRequest& request);
  // POST /logout: ends the session and leads to the form.
  HttpReply Close(const HttpRequest& request);
  // GET /: the page, or where nobody is signed in, the way to the form.
  HttpReply Page(const HttpRequest& request);

 private:
  // False: this address has shown too many.
  bool CountWrong(const std::string& peer);

  const std::function<HttpIdentity(const std::string&)> identity_of_;
  const std::function<absl::Time()> clock_;
  std::vector<std::pair<std::string, std::string>> providers_;
  SessionTable sessions_;
  WrongTokenLimit limit_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_SIGN_IN_H_
