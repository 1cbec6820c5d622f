#include "server/identity/https_client.h"

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/quiet_thread.h"
#include "base/text/host_text.h"
#include "base/tls/certificate_reader.h"
#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/address.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"

namespace farandole {
namespace {

namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::asio::ip::tcp;

constexpr size_t kMostUrlBytes = 2048;
// Of a reply beside its body: its header, and what Beast keeps of a chunk's size, extension or trailer that does not
// end.
constexpr uint32_t kMostHeaderBytes = 8 << 10;
constexpr size_t kMostBufferBytes = 32 << 10;

bool IsAddress(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

absl::StatusOr<HttpsUrl> ParseUrl(absl::string_view text, bool may_be_plain) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat("\"", ShownUrl(text).substr(0, 128),
                                                                     "\" is not https://HOST[:PORT][/PATH]",
                                                                     may_be_plain ? " or http://..." : ""));
  absl::string_view rest = text;
  HttpsUrl url;
  url.is_plain = may_be_plain && absl::ConsumePrefix(&rest, "http://");
  if (url.is_plain) url.port = "80";
  if (text.size() > kMostUrlBytes || (!url.is_plain && !absl::ConsumePrefix(&rest, "https://"))) return wrong;
  for (const char c : rest) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '#' || c == '@' || c == '"' || c == '\\')
      return wrong;
  }
  const size_t slash = rest.find_first_of("/?");
  if (slash != absl::string_view::npos) {
    url.target = rest[slash] == '/' ? std::string(rest.substr(slash)) : absl::StrCat("/", rest.substr(slash));
    rest = rest.substr(0, slash);
  }
  const size_t colon = rest.rfind(':');
  const size_t bracket = rest.rfind(']');
  if (colon != absl::string_view::npos && (bracket == absl::string_view::npos || colon > bracket)) {
    url.port = std::string(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  int port = 0;
  if (!absl::SimpleAtoi(url.port, &port) || port < 1 || port > 65535) return wrong;
  url.port = absl::StrCat(port);
  const bool is_bracketed = absl::ConsumePrefix(&rest, "[");
  if (is_bracketed && !absl::ConsumeSuffix(&rest, "]")) return wrong;
  url.host = std::string(rest);
  if (url.host.empty() || absl::StrContains(url.host, ':') != is_bracketed) return wrong;
  if (is_bracketed && !IsAddress(url.host)) return wrong;
  return url;
}

}  // namespace

// One request. Each step begins the next; the first that fails is the end.
class HttpsExchange {
 public:
  HttpsExchange(const HttpsRequest& request, HttpsUrl url)
      : request_(request), url_(std::move(url)), stream_(*io_, context_) {}

  absl::StatusOr<HttpsReply> Run() {
    if (absl::Status status = Prepare(); !status.ok()) return status;
    if (request_.end != nullptr && !request_.end->Enter(this, [this] { io_->stop(); })) return Cancelled();
    if (!Resolve()) return absl::ResourceExhaustedError(absl::StrCat("no thread to look up ", url_.HostHeader()));
    io_->run_for(absl::ToChronoNanoseconds(request_.timeout));
    if (request_.end != nullptr) request_.end->Leave(this);
    // There is work left: it was stopped, or the time is over.
    if (!reply_.has_value() && io_->stopped()) reply_ = Cancelled();
    if (!reply_.has_value()) {
      reply_ = absl::DeadlineExceededError(
          absl::StrCat(url_.HostHeader(), " has not answered within ", absl::FormatDuration(request_.timeout)));
    }
    // Lets operations that are under way end while the objects that they use are there.
    stream_.next_layer().close();
    io_->restart();
    io_->poll();
    return *std::move(reply_);
  }

 private:
  absl::Status Cancelled() const {
    return absl::CancelledError(absl::StrCat("the request to ", url_.HostHeader(), " was cancelled"));
  }

  // Looks the host up. Nothing stops the system's resolver when it has no answer, and Boost's waits for it at its end:
  // so a thread is left to it, with what it needs. False: there are no more threads.
  bool Resolve() {
    return DetachQuietly([this, io = io_, work = boost::asio::make_work_guard(*io_), url = url_]() mutable {
      boost::system::error_code error;
      const auto found = tcp::resolver(*io).resolve(url.host, url.port, tcp::resolver::numeric_service, error);
      // Called while Run() runs, or never.
      boost::asio::post(*io, [this, error, found] {
        if (!reply_.has_value() && IsGood(error, "find")) Connect(found);
      });
      work.reset();
    });
  }

  absl::Status Prepare() {
    if (!url_.is_plain) {
      if (absl::Status status = PrepareTls(); !status.ok()) return status;
    }
    message_.version(11);
    message_.method(request_.body.empty() ? http::verb::get : http::verb::post);
    message_.target(url_.target);
    message_.set(http::field::host, url_.HostHeader());
    message_.set(http::field::accept, "application/json");
    message_.set(http::field::user_agent, "farandole");
    message_.set(http::field::connection, "close");
    if (!request_.body.empty()) message_.set(http::field::content_type, request_.content_type);
    for (const auto& [name, value] : request_.headers) message_.set(name, value);
    message_.body() = request_.body;
    message_.prepare_payload();
    parser_.header_limit(kMostHeaderBytes);
    parser_.body_limit(request_.most_bytes);
    return absl::OkStatus();
  }

  absl::Status PrepareTls() {
    boost::system::error_code error;
    // Not of the context, whose settings the stream took when it was made.
    SSL_set_min_proto_version(stream_.native_handle(), TLS1_2_VERSION);
    if (request_.ca_pem.empty()) {
      context_.set_default_verify_paths(error);
    } else if (AddTrust(request_.ca_pem, SSL_CTX_get_cert_store(context_.native_handle())) == 0) {
      return absl::InvalidArgumentError("the CA file holds no certificate in PEM");
    }
    if (error) return absl::UnavailableError(absl::StrCat("the system's certificates: ", error.message()));
    stream_.set_verify_mode(ssl::verify_peer);
    stream_.set_verify_callback(ssl::host_name_verification(url_.host));
    if (!IsAddress(url_.host)) SSL_set_tlsext_host_name(stream_.native_handle(), url_.host.c_str());
    return absl::OkStatus();
  }

  bool IsGood(const boost::system::error_code& error, const char* what) {
    if (error && !reply_.has_value()) {
      reply_ = absl::UnavailableError(absl::StrCat("cannot ", what, " ", url_.HostHeader(), ": ", error.message()));
    }
    return !error;
  }

  void Connect(const tcp::resolver::results_type& found) {
    stream_.next_layer().async_connect(found, [this](boost::system::error_code error, const tcp::endpoint&) {
      if (!IsGood(error, "reach")) return;
      url_.is_plain ? Send(&stream_.next_layer()) : Handshake();
    });
  }

  void Handshake() {
    stream_.async_handshake(ssl::stream_base::client, [this](boost::system::error_code error) {
      if (IsGood(error, "trust")) Send(&stream_);
    });
  }

  // Over TLS, or over the connection beneath it.
  template <typename Stream>
  void Send(Stream* stream) {
    http::async_write(*stream, message_, [this, stream](boost::system::error_code error, size_t) {
      if (IsGood(error, "ask")) Receive(stream);
    });
  }

  template <typename Stream>
  void Receive(Stream* stream) {
    http::async_read(*stream, buffer_, parser_, [this](boost::system::error_code error, size_t) {
      if (!IsGood(error, "understand")) return;
      reply_ = HttpsReply{parser_.get().result_int(), std::string(parser_.get()[http::field::location]),
                          std::string(parser_.get()[http::field::retry_after]), std::move(parser_.get().body())};
    });
  }

  const HttpsRequest& request_;
  const HttpsUrl url_;
  // shared: with the thread that looks the host up.
  const std::shared_ptr<boost::asio::io_context> io_ = std::make_shared<boost::asio::io_context>();
  ssl::context context_{ssl::context::tls_client};
  ssl::stream<boost::beast::tcp_stream> stream_;
  http::request<http::string_body> message_;
  boost::beast::flat_buffer buffer_{kMostBufferBytes};
  http::response_parser<http::string_body> parser_;
  std::optional<absl::StatusOr<HttpsReply>> reply_;
};

void RequestEnd::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_cancelled_ = true;
  for (const auto& [exchange, stop] : stops_) stop();
}

bool RequestEnd::Enter(const HttpsExchange* exchange, std::function<void()> stop) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_cancelled_) return false;
  stops_[exchange] = std::move(stop);
  return true;
}

void RequestEnd::Leave(const HttpsExchange* exchange) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stops_.erase(exchange);
}

std::string HttpsUrl::HostHeader() const {
  const std::string name = BracketedHost(host);
  return port == (is_plain ? "80" : "443") ? name : absl::StrCat(name, ":", port);
}

std::string ShownUrl(absl::string_view url) {
  const size_t query = url.find('?');
  const std::string tail = query == absl::string_view::npos ? "" : "?...";
  url = url.substr(0, query);
  const size_t at = url.rfind('@');
  if (at == absl::string_view::npos) return absl::StrCat(url, tail);
  const size_t scheme = url.find("://");
  const size_t head = scheme == absl::string_view::npos || scheme > at ? 0 : scheme + 3;
  return absl::StrCat(url.substr(0, head), "...", url.substr(at), tail);
}

absl::StatusOr<HttpsUrl> ParseHttpsUrl(absl::string_view text) { return ParseUrl(text, /*may_be_plain=*/false); }

absl::StatusOr<HttpsUrl> ParseHttpUrl(absl::string_view text) { return ParseUrl(text, /*may_be_plain=*/true); }

absl::StatusOr<HttpsReply> AskByHttps(const HttpsRequest& request) {
  absl::StatusOr<HttpsUrl> url = ParseUrl(request.url, request.may_be_plain);
  if (!url.ok()) return url.status();
  return HttpsExchange(request, *std::move(url)).Run();
}

}  // namespace farandole
