#include "web/http_session.h"

#include <string>
#include <utility>

#include "boost/beast/core/error.hpp"
#include "boost/beast/http/error.hpp"
#include "boost/beast/http/field.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/write.hpp"

namespace farandole {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kDiscardBytes = 4096;

constexpr char kScheme[] = "bearer ";
constexpr size_t kSchemeBytes = sizeof(kScheme) - 1;

std::string BearerToken(const http::request<http::string_body>& request) {
  const beast::string_view value = request[http::field::authorization];
  if (value.size() <= kSchemeBytes || !beast::iequals(value.substr(0, kSchemeBytes), kScheme)) return "";
  return std::string(value.substr(kSchemeBytes));
}

HttpRequest Translate(http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  request.token = BearerToken(message);
  request.body = std::move(message.body());
  return request;
}

HttpReply RefuseUnreadable(const HttpEdgeOptions& options, const boost::system::error_code& error) {
  if (error == http::error::header_limit) {
    return HttpError(431, "the request's header has more than " + std::to_string(options.max_header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return HttpError(413, "the request's body has more than " + std::to_string(options.max_body_bytes) + " bytes");
  }
  return HttpError(400, "the request is no HTTP/1.1: " + error.message());
}

}  // namespace

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, const HttpEdgeOptions& options, const HttpSite& site,
                         std::function<void()> ended)
    : stream_(std::move(socket)), options_(options), site_(site), ended_(std::move(ended)) {}

HttpSession::~HttpSession() { ended_(); }

void HttpSession::Serve() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(options_.max_header_bytes));
  parser_->body_limit(options_.max_body_bytes);
  stream_.expires_after(options_.timeout);
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const boost::system::error_code& error, size_t) { self->OnRead(error); });
}

void HttpSession::Turn(const HttpReply& reply) {
  stream_.expires_after(options_.timeout);
  Write(reply, /*keep_alive=*/false);
}

void HttpSession::OnRead(const boost::system::error_code& error) {
  if (!error) {
    const bool keep_alive = parser_->get().keep_alive();
    const HttpRequest request = Translate(parser_->get());
    Write(AnswerHttp(site_, request), keep_alive);
    return;
  }
  const bool is_malformed = error.category() == make_error_code(http::error::bad_method).category();
  if (is_malformed && error != http::error::end_of_stream && error != http::error::partial_message) {
    Write(RefuseUnreadable(options_, error), /*keep_alive=*/false);
  }
}

void HttpSession::Write(const HttpReply& reply, bool keep_alive) {
  response_.emplace(static_cast<http::status>(reply.status), 11);
  response_->set(http::field::content_type, reply.content_type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : reply.headers) response_->set(name, value);
  response_->body() = reply.body;
  response_->keep_alive(keep_alive);
  response_->prepare_payload();
  stream_.expires_after(options_.timeout);
  http::async_write(stream_, *response_, [self = shared_from_this()](const boost::system::error_code& error, size_t) {
    self->OnWritten(error);
  });
}

void HttpSession::OnWritten(const boost::system::error_code& error) {
  if (error) return;
  if (response_->keep_alive()) {
    Serve();
  } else {
    Linger();
  }
}

// A socket that is closed with unread bytes in it is reset, and the client may lose the reply.
void HttpSession::Linger() {
  boost::system::error_code ignored;
  stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLingerTime);
  Discard();
}

void HttpSession::Discard() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kDiscardBytes),
                          [self = shared_from_this()](const boost::system::error_code& error, size_t) {
                            if (!error) self->Discard();
                          });
}

}  // namespace farandole
