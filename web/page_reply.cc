#include "web/page_reply.h"

#include <utility>

namespace farandole {
namespace {

HttpReply FileReply(const char* content_type, std::string body) {
  HttpReply reply;
  reply.content_type = content_type;
  reply.body = std::move(body);
  reply.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
       "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      // With "no-referrer" browsers send a form of our own with the origin "null".
      {"Referrer-Policy", "same-origin"},
      {"X-Frame-Options", "DENY"},
  };
  return reply;
}

}  // namespace

HttpReply HtmlReply(std::string body) { return FileReply("text/html; charset=utf-8", std::move(body)); }
HttpReply StyleReply(std::string body) { return FileReply("text/css; charset=utf-8", std::move(body)); }
HttpReply IconReply(std::string body) { return FileReply("image/svg+xml", std::move(body)); }
HttpReply ScriptReply(std::string body) { return FileReply("text/javascript; charset=utf-8", std::move(body)); }

}  // namespace farandole
