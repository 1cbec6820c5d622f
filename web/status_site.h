#ifndef FARANDOLE_WEB_STATUS_SITE_H_
#define FARANDOLE_WEB_STATUS_SITE_H_

#include "web/http_message.h"
#include "web/sign_in.h"

namespace farandole {

// The status page with its sign-in; what it shows comes from /api/v1, whose routes are to be added. `sign_in` outlives
// the site.
HttpSite MakeStatusSite(SignIn* sign_in);

}  // namespace farandole

#endif  // FARANDOLE_WEB_STATUS_SITE_H_
