#include "web/http_session.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/bearer_token.h"
#include "base/check.h"
#include "boost/asio/post.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core/error.hpp"
#include "boost/beast/http/error.hpp"
#include "boost/beast/http/field.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/write.hpp"
#include "spdlog/spdlog.h"
#include "web/content_coding.h"
#include "web/host_name.h"

namespace farandole {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kDiscardBytes = 4096;
// Beast keeps what it has not understood yet, which has no limit of its own where a chunk's size, its extension or a
// trailer does not end. A body goes through in pieces of this size.
constexpr size_t kReadBytes = 8 << 10;
// A year. Browsers keep it for the host and all its ports, so that it is said of names only that --http-host gives to
// the dashboard.
constexpr char kStrictTransport[] = "max-age=31536000";

absl::string_view ValueOf(const http::request<http::string_body>& request, http::field field) {
  const beast::string_view value = request[field];
  return {value.data(), value.size()};
}

// RFC 6265: "name=value; name=value".
std::string Cookie(const http::request<http::string_body>& request, const char* cookie) {
  const std::string name = std::string(cookie) + "=";
  beast::string_view rest = request[http::field::cookie];
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    beast::string_view pair = rest.substr(0, end);
    while (!pair.empty() && pair.front() == ' ') pair.remove_prefix(1);
    if (pair.substr(0, name.size()) == name) return std::string(pair.substr(name.size()));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

HttpRequest Translate(http::request<http::string_body>& message, std::string peer) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  request.token = BearerToken(ValueOf(message, http::field::authorization)).value_or("");
  request.session = Cookie(message, kSessionCookie);
  request.sign_in = Cookie(message, kSignInCookie);
  request.origin = std::string(message[http::field::origin]);
  request.host = std::string(message[http::field::host]);
  request.last_event = std::string(message["Last-Event-ID"]);
  request.takes_gzip = TakesGzip(ValueOf(message, http::field::accept_encoding));
  request.is_behind_tls = message["X-Forwarded-Proto"] == "https";
  request.peer = std::move(peer);
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
  if (error == http::error::buffer_overflow) {
    return HttpError(413, "the request has a part beside its body of more than " +
                              std::to_string(options.max_header_bytes) + " bytes");
  }
  return HttpError(400, "the request is no HTTP/1.1: " + error.message());
}

std::string AddressOf(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  return error ? "" : peer.address().to_string();
}

}  // namespace

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                         const HttpEdgeOptions& options, const HttpSite& site, ConnectionPlaces* places,
                         ReplyWriters* writers, std::function<void(ConnectionPlaces::Id)> ended)
    : stream_(std::move(socket), std::move(tls)),
      options_(options),
      site_(site),
      places_(places),
      writers_(writers),
      ended_(std::move(ended)),
      peer_(AddressOf(stream_.tcp().socket())),
      id_(places->Add(peer_)),
      buffer_(options.max_header_bytes + kReadBytes) {}

HttpSession::~HttpSession() { ended_(id_); }

void HttpSession::Cut() {
  boost::system::error_code ignored;
  stream_.tcp().socket().close(ignored);
}

// Until the handshake is over, the connection may lose its place to another, as when a request is awaited.
void HttpSession::Begin() {
  if (!stream_.has_tls()) return Serve();
  places_->SetAwaited(id_, /*is_known=*/false);
  stream_.tcp().expires_after(options_.timeout);
  stream_.AsyncHandshake([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->Serve();
  });
}

void HttpSession::Serve() {
  places_->SetAwaited(id_, is_known_);
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(options_.max_header_bytes));
  parser_->body_limit(options_.max_body_bytes);
  stream_.tcp().expires_after(options_.timeout);
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](const boost::system::error_code& error, size_t) { self->OnRead(error); });
}

void HttpSession::Turn(const HttpReply& reply) {
  if (stream_.has_tls()) return Cut();
  stream_.tcp().expires_after(options_.timeout);
  Write(reply, /*keep_alive=*/false);
}

void HttpSession::OnRead(const boost::system::error_code& error) {
  if (!error) {
    Answer();
    return;
  }
  const bool is_malformed = error.category() == make_error_code(http::error::bad_method).category();
  if (is_malformed && error != http::error::end_of_stream && error != http::error::partial_message) {
    Write(RefuseUnreadable(options_, error), /*keep_alive=*/false);
  }
}

// The reply may come on another thread, and later: until then nothing is read from or written to the connection.
void HttpSession::Answer() {
  const bool keep_alive = parser_->get().keep_alive();
  places_->SetAnswering(id_);
  HttpRequest request = Translate(parser_->get(), peer_);
  request.is_behind_tls = request.is_behind_tls || stream_.has_tls();
  takes_gzip_ = request.takes_gzip;
  is_strict_ = stream_.has_tls() && IsOneOf(request.host, options_.host_names);
  if (!IsOwnHost(request.host, options_.host_names) && !IsOneOf(request.host, options_.certificate_names)) {
    Write(HttpError(421, "the header Host names " + request.host +
                             ", which is not known as this service; --http-host adds a name"),
          /*keep_alive=*/false);
    return;
  }
  // shared: by the answer's copies. The session itself comes back to the edge's thread, where alone it may end.
  const auto held = std::make_shared<std::shared_ptr<HttpSession>>(shared_from_this());
  const HttpIdentity identity = AnswerHttp(site_, request, [held, keep_alive](HttpReply reply) {
    std::shared_ptr<HttpSession> self = std::exchange(*held, nullptr);
    FD_CHECK(self != nullptr);
    const auto executor = self->stream_.get_executor();
    boost::asio::post(
        executor, [self = std::move(self), keep_alive, reply = std::move(reply)] { self->Write(reply, keep_alive); });
  });
  is_known_ = identity.access != HttpAccess::kNobody;
  places_->SetOwner(id_, is_known_ ? OwnerOf(identity) : "");
}

void HttpSession::WriteInTurn(HttpReply reply, bool keep_alive) {
  // shared: by the task's copies, as above.
  const auto held = std::make_shared<std::shared_ptr<HttpSession>>(shared_from_this());
  const std::string owner = std::exchange(reply.turn_of, "");
  ReplyWriter& writer = reply.is_long ? writers_->files : writers_->pages;
  writer.Add(owner, [held, keep_alive, takes_gzip = takes_gzip_, reply = std::move(reply)]() mutable {
    bool is_written = true;
    try {
      std::exchange(reply.complete, nullptr)(&reply);
      Compress(takes_gzip, &reply);
    } catch (const std::exception& error) {
      // As HttpEdge has it on its own thread.
      spdlog::error("an HTTP request has failed, and its connection ends: {}", error.what());
      is_written = false;
    }
    std::shared_ptr<HttpSession> self = std::exchange(*held, nullptr);
    const auto executor = self->stream_.get_executor();
    boost::asio::post(executor, [self = std::move(self), keep_alive, is_written, reply = std::move(reply)]() mutable {
      is_written ? self->Write(std::move(reply), keep_alive) : self->Cut();
    });
  });
}

void HttpSession::Write(HttpReply reply, bool keep_alive) {
  if (reply.complete != nullptr && !reply.turn_of.empty()) return WriteInTurn(std::move(reply), keep_alive);
  if (reply.complete != nullptr) std::exchange(reply.complete, nullptr)(&reply);
  if (reply.stream != nullptr) {
    Open(reply.stream);
    return;
  }
  Compress(takes_gzip_, &reply);
  response_.emplace(static_cast<http::status>(reply.status), 11);
  response_->set(http::field::content_type, reply.content_type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  if (is_strict_) response_->set("Strict-Transport-Security", kStrictTransport);
  for (const auto& [name, value] : reply.headers) {
    // A reply may set several cookies, each in a header of its own.
    if (name == "Set-Cookie") {
      response_->insert(name, value);
    } else {
      response_->set(name, value);
    }
  }
  response_->body() = std::move(reply.body);
  held_ = std::move(reply.held);
  response_->keep_alive(keep_alive);
  response_->prepare_payload();
  // A stranger that does not read its reply keeps nobody out.
  if (!is_known_) places_->SetAwaited(id_, /*is_known=*/false);
  stream_.tcp().expires_after(options_.timeout);
  http::async_write(stream_, *response_, [self = shared_from_this()](const boost::system::error_code& error, size_t) {
    self->OnWritten(error);
  });
}

// Has no length: the end of the connection is the end of the reply.
void HttpSession::Open(std::shared_ptr<EventStream> events) {
  events_ = std::move(events);
  writing_ =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Content-Type-Options: "
      "nosniff\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n";
  // Reads only to see the reader's end.
  stream_.tcp().expires_never();
  AwaitEnd();
  Send();
  events_->SetWake([weak = weak_from_this()] {
    if (const std::shared_ptr<HttpSession> self = weak.lock()) self->Pump();
  });
}

void HttpSession::AwaitEnd() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kDiscardBytes),
                          [self = shared_from_this()](const boost::system::error_code& error, size_t) {
                            if (!error) return self->AwaitEnd();
                            self->Cut();
                            self->events_->End();
                          });
}

void HttpSession::Pump() {
  if (!events_->is_open()) {
    Cut();
    return;
  }
  if (!writing_.empty()) return;
  writing_ = events_->Take();
  if (!writing_.empty()) Send();
}

void HttpSession::Send() {
  stream_.tcp().expires_after(options_.timeout);
  boost::asio::async_write(stream_, boost::asio::buffer(writing_),
                           [self = shared_from_this()](const boost::system::error_code& error, size_t) {
                             self->writing_.clear();
                             if (error) return self->events_->End();
                             self->Pump();
                           });
}

void HttpSession::OnWritten(const boost::system::error_code& error) {
  if (error) return;
  const bool keep_alive = response_->keep_alive();
  // A large body does not stay with a connection that is idle.
  response_.reset();
  held_ = nullptr;
  if (keep_alive) {
    Serve();
  } else {
    Linger();
  }
}

// A socket that is closed with unread bytes in it is reset, and the client may lose the reply.
void HttpSession::Linger() {
  places_->SetAwaited(id_, /*is_known=*/false);
  stream_.tcp().expires_after(kLingerTime);
  if (stream_.has_tls()) {
    stream_.AsyncShutdown([self = shared_from_this()](const boost::system::error_code&) {});
    return;
  }
  boost::system::error_code ignored;
  stream_.tcp().socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
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
