#include "web/http_edge.h"

#include <unistd.h>

#include <exception>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "spdlog/spdlog.h"
#include "web/connection_places.h"
#include "web/http_session.h"
#include "web/tls_context.h"
#include "web/writer/reply_writer.h"

namespace farandole {
namespace {

using boost::asio::ip::tcp;

// Without a free file descriptor, accepting fails at once and again; what is pending waits this long.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kTickTime{250};
// Where cores are short, pages wait for the jobs, not the jobs for pages.
constexpr int kNiceness = 10;

}  // namespace

class HttpEdge::State {
 public:
  State(HttpEdgeOptions options, HttpSite site)
      : options_(std::move(options)), site_(std::move(site)), acceptor_(io_), pause_(io_), tick_(io_) {}
  ~State() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen() {
    const std::string where = absl::StrCat("cannot listen for HTTP on ", options_.host, " port ", options_.port, ": ");
    if (options_.certificate.has_value()) {
      absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> tls = MakeTlsContext(*options_.certificate);
      if (!tls.ok()) return tls.status();
      tls_ = *std::move(tls);
    }
    boost::system::error_code error;
    const auto found =
        tcp::resolver(io_).resolve(options_.host, std::to_string(options_.port), tcp::resolver::numeric_service, error);
    if (error) return absl::UnavailableError(where + error.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return absl::UnavailableError(where + error.message());
    port_ = acceptor_.local_endpoint().port();
    return absl::OkStatus();
  }

  void Run() {
    Accept();
    if (site_.tick != nullptr) Tick();
    thread_ = std::thread([this] {
      // Of this thread alone, as Linux has it; to step back is always allowed.
      std::ignore = nice(kNiceness);
      Serve();
    });
  }

  uint16_t port() const { return port_; }

  absl::Status SetCertificate(const Certificate& certificate) {
    absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> tls = MakeTlsContext(certificate);
    if (!tls.ok()) return tls.status();
    boost::asio::post(io_, [this, tls = *std::move(tls)] { tls_ = tls; });
    return absl::OkStatus();
  }

 private:
  // Libraries that make files and JSON of bytes of programs may throw. Then the connection ends, and not the
  // coordinator of all tenants.
  void Serve() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        spdlog::error("an HTTP request has failed, and its connection ends: {}", error.what());
      }
    }
  }

  void Accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error) {
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](const boost::system::error_code&) { Accept(); });
        return;
      }
      Accept();
      Take(std::move(socket));
    });
  }

  void Take(tcp::socket socket) {
    while (IsFull() && CutWeakest()) continue;
    const bool has_place = !IsFull();
    const auto session = std::make_shared<HttpSession>(std::move(socket), tls_, options_, site_, &places_, &writers_,
                                                       [this](ConnectionPlaces::Id id) { End(id); });
    sessions_[session->id()] = session;
    if (has_place) {
      session->Begin();
    } else {
      session->Turn(
          HttpError(503, absl::StrCat(options_.max_connections, " connections are open, which is the most that may")));
    }
  }

  void Tick() {
    tick_.expires_after(kTickTime);
    tick_.async_wait([this](const boost::system::error_code&) {
      Tick();
      site_.tick();
    });
  }

  bool IsFull() const {
    return places_.size() >= options_.max_connections || places_.strangers() >= options_.max_strangers;
  }

  bool CutWeakest() {
    const auto weakest = sessions_.find(places_.Weakest());
    if (weakest == sessions_.end()) return false;
    if (const std::shared_ptr<HttpSession> session = weakest->second.lock()) session->Cut();
    places_.Remove(weakest->first);
    sessions_.erase(weakest);
    return true;
  }

  void End(ConnectionPlaces::Id id) {
    places_.Remove(id);
    sessions_.erase(id);
  }

  const HttpEdgeOptions options_;
  const HttpSite site_;
  uint16_t port_ = 0;
  // Of the thread. Sessions lie in the context, and take themselves out when it ends.
  ConnectionPlaces places_;
  std::map<ConnectionPlaces::Id, std::weak_ptr<HttpSession>> sessions_;
  // Shared with the connections that began with it. Null: no TLS.
  std::shared_ptr<boost::asio::ssl::context> tls_;
  boost::asio::io_context io_{1};
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  boost::asio::steady_timer tick_;
  // Its tasks hold sessions.
  ReplyWriters writers_;
  std::thread thread_;
};

HttpEdge::HttpEdge(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpEdge::~HttpEdge() = default;

absl::StatusOr<std::unique_ptr<HttpEdge>> HttpEdge::Start(const HttpEdgeOptions& options, HttpSite site) {
  auto state = std::make_unique<State>(options, std::move(site));
  if (absl::Status status = state->Listen(); !status.ok()) return status;
  state->Run();
  return std::unique_ptr<HttpEdge>(new HttpEdge(std::move(state)));
}

uint16_t HttpEdge::port() const { return state_->port(); }

absl::Status HttpEdge::SetCertificate(const Certificate& certificate) { return state_->SetCertificate(certificate); }

}  // namespace farandole
