#include "web/sign_in.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "web/form_text.h"
#include "web/page_files.h"
#include "web/page_reply.h"

namespace farandole {
namespace {

constexpr char kTooManyTokens[] = "Too many tokens that are not known came from this address; wait some seconds.";

HttpReply Redirect(const std::string& path) {
  HttpReply reply = HtmlReply("");
  reply.status = 303;
  reply.headers.emplace_back("Location", path);
  return reply;
}

// `text` as HTML has it.
std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string Cookie(const std::string& secret, absl::Duration lifetime, bool is_behind_tls) {
  return absl::StrCat(kSessionCookie, "=", secret,
                      "; Path=/; HttpOnly; SameSite=Strict; Max-Age=", absl::ToInt64Seconds(lifetime),
                      is_behind_tls ? "; Secure" : "");
}

HttpReply TooMany() {
  HttpReply reply = HttpError(429, kTooManyTokens);
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

}  // namespace

HttpCaller SignIn::CallerOf(const HttpRequest& request) {
  if (!request.token.empty()) {
    HttpIdentity identity = identity_of_(request.token);
    if (identity.access != HttpAccess::kNobody) return {std::move(identity), std::nullopt};
    if (!CountWrong(request.peer)) return {{}, TooMany()};
    return {};
  }
  if (request.session.empty()) return {};
  const std::optional<SessionTable::Session> session = sessions_.Find(request.session, clock_());
  if (!session.has_value()) return {};
  return {session->token.empty() ? session->identity : identity_of_(session->token), std::nullopt};
}

bool SignIn::CountWrong(const std::string& peer) {
  const absl::Time now = clock_();
  if (!limit_.MayTry(peer, now)) return false;
  limit_.CountWrong(peer, now);
  return true;
}

HttpReply SignIn::Form() const { return FormWith(200, ""); }

HttpReply SignIn::FormWith(unsigned status, const std::string& error) const {
  const std::string line =
      error.empty() ? "" : absl::StrCat("<p class=\"error\" role=\"alert\">", Escape(error), "</p>");
  std::string ways;
  for (const auto& [name, path] : providers_)
    absl::StrAppend(&ways, "<a class=\"way\" href=\"", Escape(path), "\">Sign in with ", Escape(name), "</a>\n");
  HttpReply reply = HtmlReply(
      absl::StrReplaceAll(PageFileAt("login.html").plain, {{"<!--error-->", line}, {"<!--providers-->", ways}}));
  reply.status = status;
  return reply;
}

// A page that leads on, and no redirection: a browser that comes from the provider's site would follow it as that
// site's and leave the session's cookie out, which is for this site alone.
HttpReply SignIn::OpenFor(HttpIdentity identity, absl::Duration lifetime, bool is_behind_tls) {
  HttpReply reply = HtmlReply(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
      "content=\"0;url=/\"><title>Signed in - Farandole</title></head><body><p>You are signed in. <a "
      "href=\"/\">Go to the dashboard</a></p></body></html>\n");
  reply.headers.emplace_back(
      "Set-Cookie", Cookie(sessions_.Open({"", std::move(identity), {}, lifetime}, clock_()), lifetime, is_behind_tls));
  return reply;
}

HttpReply SignIn::Open(const HttpRequest& request) {
  if (IsFromElsewhere(request)) return FormWith(403, "This form came from another site.");
  const std::string token(absl::StripAsciiWhitespace(QueryValue(request.body, "token")));
  if (token.empty()) return FormWith(400, "The form has no token.");
  HttpIdentity identity = identity_of_(token);
  if (identity.access == HttpAccess::kNobody) {
    if (CountWrong(request.peer)) return FormWith(401, "This token is not known to the coordinator.");
    HttpReply reply = FormWith(429, kTooManyTokens);
    reply.headers.emplace_back("Retry-After", "5");
    return reply;
  }
  HttpReply reply = Redirect("/");
  reply.headers.emplace_back("Set-Cookie", Cookie(sessions_.Open({token, std::move(identity), {}}, clock_()),
                                                  SessionTable::kLifetime, request.is_behind_tls));
  return reply;
}

HttpReply SignIn::Close(const HttpRequest& request) {
  if (IsFromElsewhere(request)) return FormWith(403, "This form came from another site.");
  sessions_.Close(request.session);
  HttpReply reply = Redirect("/login");
  reply.headers.emplace_back("Set-Cookie", Cookie("", absl::ZeroDuration(), request.is_behind_tls));
  return reply;
}

HttpReply SignIn::Page(const HttpRequest& request) {
  HttpCaller caller = CallerOf(request);
  if (caller.refusal.has_value()) return *std::move(caller.refusal);
  return caller.identity.access == HttpAccess::kNobody ? Redirect("/login") : HtmlReply(PageFileAt("index.html").plain);
}

}  // namespace farandole
