#ifndef FARANDOLE_WEB_PAGE_REPLY_H_
#define FARANDOLE_WEB_PAGE_REPLY_H_

#include <string>

#include "web/http_message.h"
#include "web/page_files.h"

namespace farandole {

// A page, with what keeps a browser from doing more than the page needs: no script, style, worker or connection but the
// edge's own, nothing inline, text never taken for markup or script (Trusted Types), no frame around it, no word about
// its address to others.
HttpReply HtmlReply(std::string body);
// A file whose address has its content's hash: browsers may keep it for good. Compressed where the request allows it.
HttpReply AssetReply(const HttpRequest& request, const PageFile& file);

}  // namespace farandole

#endif  // FARANDOLE_WEB_PAGE_REPLY_H_
