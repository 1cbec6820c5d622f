#include "web/page_reply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace farandole {
namespace {

HttpReply FileReply(std::string content_type, std::string body) {
  HttpReply reply;
  reply.content_type = std::move(content_type);
  reply.body = std::move(body);
  reply.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
       "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
       "require-trusted-types-for 'script'; trusted-types farandole"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      // With "no-referrer" browsers send a form of our own with the origin "null".
      {"Referrer-Policy", "same-origin"},
      {"X-Frame-Options", "DENY"},
  };
  return reply;
}

}  // namespace

const PageFile& PageFileAt(const std::string& path) {
  const auto found =
      std::find_if(PageFiles().begin(), PageFiles().end(), [&path](const PageFile& file) { return file.path == path; });
  FD_CHECK(found != PageFiles().end());
  return *found;
}

HttpReply HtmlReply(std::string body) { return FileReply("text/html; charset=utf-8", std::move(body)); }

HttpReply AssetReply(const HttpRequest& request, const PageFile& file) {
  HttpReply reply = FileReply(file.content_type, request.takes_gzip ? file.gzip : file.plain);
  if (request.takes_gzip) reply.headers.emplace_back("Content-Encoding", "gzip");
  reply.headers.emplace_back("Vary", "Accept-Encoding");
  reply.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
  return reply;
}

}  // namespace farandole
