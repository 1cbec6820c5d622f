#ifndef FARANDOLE_WEB_PAGE_REPLY_H_
#define FARANDOLE_WEB_PAGE_REPLY_H_

#include <string>

#include "web/http_message.h"

namespace farandole {

// Files of a page, with what keeps a browser from doing more than the page needs: no script, style or connection but
// the edge's own, nothing inline, no frame around it, no word about its address to others.
HttpReply HtmlReply(std::string body);
HttpReply StyleReply(std::string body);
HttpReply ScriptReply(std::string body);
HttpReply IconReply(std::string body);

}  // namespace farandole

#endif  // FARANDOLE_WEB_PAGE_REPLY_H_
