#include "web/status_site.h"

#include <string>

#include "web/page_files.h"
#include "web/page_reply.h"

namespace farandole {

HttpSite MakeStatusSite(SignIn* sign_in) {
  constexpr HttpAccess kNobody = HttpAccess::kNobody;
  HttpSite site;
  site.caller_of = [sign_in](const HttpRequest& request) { return sign_in->CallerOf(request); };
  site.routes.push_back(
      DirectRoute("GET", "/", kNobody, [sign_in](const HttpRequest& request) { return sign_in->Page(request); }));
  site.routes.push_back(
      DirectRoute("GET", "/login", kNobody, [sign_in](const HttpRequest&) { return sign_in->Form(); }));
  site.routes.push_back(
      DirectRoute("POST", "/login", kNobody, [sign_in](const HttpRequest& request) { return sign_in->Open(request); }));
  site.routes.push_back(DirectRoute("POST", "/logout", kNobody,
                                    [sign_in](const HttpRequest& request) { return sign_in->Close(request); }));
  for (const PageFile& file : PageFiles()) {
    if (file.path.front() != '/') continue;
    site.routes.push_back(DirectRoute("GET", file.path, kNobody,
                                      [&file](const HttpRequest& request) { return AssetReply(request, file); }));
  }
  return site;
}

}  // namespace farandole
