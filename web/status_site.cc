#include "web/status_site.h"

#include "web/page_files.h"
#include "web/page_reply.h"

namespace farandole {

HttpSite MakeStatusSite(SignIn* sign_in) {
  constexpr HttpAccess kNobody = HttpAccess::kNobody;
  HttpSite site;
  site.caller_of = [sign_in](const HttpRequest& request) { return sign_in->CallerOf(request); };
  site.routes.push_back(
      DirectRoute("GET", "/", kNobody, [sign_in](const HttpRequest& request) { return sign_in->Page(request); }));
  site.routes.push_back(DirectRoute("GET", "/login", kNobody, [](const HttpRequest&) { return SignIn::Form(); }));
  site.routes.push_back(
      DirectRoute("POST", "/login", kNobody, [sign_in](const HttpRequest& request) { return sign_in->Open(request); }));
  site.routes.push_back(DirectRoute("POST", "/logout", kNobody,
                                    [sign_in](const HttpRequest& request) { return sign_in->Close(request); }));
  site.routes.push_back(
      DirectRoute("GET", "/status.css", kNobody, [](const HttpRequest&) { return StyleReply(kStatusCss); }));
  site.routes.push_back(
      DirectRoute("GET", "/status.js", kNobody, [](const HttpRequest&) { return ScriptReply(kStatusJs); }));
  site.routes.push_back(
      DirectRoute("GET", "/icon.svg", kNobody, [](const HttpRequest&) { return IconReply(kIconSvg); }));
  return site;
}

}  // namespace farandole
