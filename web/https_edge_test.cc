// The HTTP edge with a certificate of its own.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "web/http_edge.h"

namespace farandole {
namespace {

namespace ssl = boost::asio::ssl;
using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::Not;

Certificate Make(const std::vector<std::string>& names) {
  const absl::Time now = absl::Now();
  const absl::StatusOr<Certificate> made = MakeCertificate(names, now - absl::Hours(1), now + absl::Hours(1));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Certificate();
}

tcp::endpoint Place(uint16_t port) { return {boost::asio::ip::make_address("127.0.0.1"), port}; }

// A connection that takes no certificate but `trusted`. Throws where there is another.
class TlsConnection {
 public:
  TlsConnection(uint16_t port, const Certificate& trusted, int most_version = TLS1_3_VERSION) {
    context_.set_verify_mode(ssl::verify_peer);
    context_.add_certificate_authority(boost::asio::buffer(trusted.certificate_pem));
    SSL_CTX_set_max_proto_version(context_.native_handle(), most_version);
    stream_ = std::make_unique<ssl::stream<tcp::socket>>(io_, context_);
    stream_->set_verify_callback(ssl::host_name_verification("localhost"));
    stream_->lowest_layer().connect(Place(port));
    stream_->handshake(ssl::stream_base::client);
  }

  void Send(const std::string& text) { boost::asio::write(*stream_, boost::asio::buffer(text)); }
  std::string ReadAll() {
    std::string text;
    boost::asio::read(*stream_, boost::asio::dynamic_buffer(text), end_);
    return text;
  }
  // So many bytes.
  std::string Read(size_t count) {
    std::string text(count, '\0');
    boost::asio::read(*stream_, boost::asio::buffer(text));
    return text;
  }
  // How ReadAll ended.
  const boost::system::error_code& end() const { return end_; }

 private:
  boost::asio::io_context io_;
  ssl::context context_{ssl::context::tls_client};
  std::unique_ptr<ssl::stream<tcp::socket>> stream_;
  boost::system::error_code end_;
};

class HttpsEdgeTest : public ::testing::Test {
 protected:
  void Start() {
    HttpSite site;
    site.caller_of = [](const HttpRequest&) { return HttpCaller(); };
    site.routes.push_back(DirectRoute("GET", "/", HttpAccess::kNobody, [](const HttpRequest& request) {
      HttpReply reply;
      reply.body = request.is_behind_tls ? "by TLS\n" : "in the open\n";
      return reply;
    }));
    site.routes.push_back(DirectRoute("GET", "/large", HttpAccess::kNobody, [](const HttpRequest&) {
      HttpReply reply;
      reply.body = std::string(3 << 20, 'x');
      return reply;
    }));
    site.routes.push_back(DirectRoute("GET", "/cookies", HttpAccess::kNobody, [](const HttpRequest&) {
      HttpReply reply;
      reply.headers = {{"Set-Cookie", "a=1"}, {"Cache-Control", "public"}, {"Set-Cookie", "b=2"}};
      return reply;
    }));
    site.routes.push_back({"GET", "/stream", HttpAccess::kNobody,
                           [this](const HttpRequest&, const HttpIdentity&, const HttpAnswer& answer) {
                             HttpReply reply;
                             reply.stream = std::make_shared<EventStream>();
                             reply.stream->Send("data: 1\n\n");
                             stream_ = reply.stream;
                             answer(std::move(reply));
                           }});
    site.tick = [this] {
      if (stream_ != nullptr) stream_->Send("data: tick\n\n");
    };
    options_.certificate = first_;
    absl::StatusOr<std::unique_ptr<HttpEdge>> edge = HttpEdge::Start(options_, std::move(site));
    ASSERT_TRUE(edge.ok()) << edge.status();
    edge_ = *std::move(edge);
  }

  std::string Ask(const std::string& path, const std::string& host = "localhost", int most_version = TLS1_3_VERSION) {
    TlsConnection connection(edge_->port(), first_, most_version);
    connection.Send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    std::string reply = connection.ReadAll();
    EXPECT_EQ(connection.end(), boost::asio::error::eof) << "the end of a reply must be one that TLS vouches for";
    return reply;
  }

  const Certificate first_ = Make({"localhost"});
  HttpEdgeOptions options_;
  std::unique_ptr<HttpEdge> edge_;
  // Of the edge's thread.
  std::shared_ptr<EventStream> stream_;
};

TEST_F(HttpsEdgeTest, AnswersByBothVersionsOfTlsAndNoOlderOne) {
  Start();
  EXPECT_THAT(Ask("/"), HasSubstr("by TLS\n"));
  EXPECT_THAT(Ask("/", "localhost", TLS1_2_VERSION), HasSubstr("by TLS\n"));
  EXPECT_THROW(Ask("/", "localhost", TLS1_1_VERSION), boost::system::system_error);
  EXPECT_GE(Ask("/large").size(), size_t{3} << 20);
}

TEST_F(HttpsEdgeTest, AClientThatSpeaksNoTlsGetsNoAnswer) {
  Start();
  boost::asio::io_context io;
  tcp::socket socket(io);
  socket.connect(Place(edge_->port()));
  boost::asio::write(socket, boost::asio::buffer(std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  std::string reply;
  boost::system::error_code error;
  boost::asio::read(socket, boost::asio::dynamic_buffer(reply), error);
  EXPECT_THAT(reply, Not(HasSubstr("HTTP/1.1")));
}

TEST_F(HttpsEdgeTest, OnlyNamesOfTheOwnersChoiceAreForHttpsAlone) {
  options_.host_names = {"jobs.example"};
  options_.certificate_names = {"node-3.example"};
  Start();
  EXPECT_THAT(Ask("/", "jobs.example:8443"), HasSubstr("\r\nStrict-Transport-Security: max-age=31536000\r\n"));
  for (const char* host : {"localhost", "127.0.0.1:1", "node-3.example"}) {
    const std::string reply = Ask("/", host);
    EXPECT_THAT(reply, HasSubstr("by TLS\n")) << host;
    EXPECT_THAT(reply, Not(HasSubstr("Strict-Transport"))) << host;
  }
  EXPECT_THAT(Ask("/", "elsewhere.example"), HasSubstr("HTTP/1.1 421 "));
}

TEST_F(HttpsEdgeTest, ANewCertificateIsForNewConnections) {
  Start();
  TlsConnection stream(edge_->port(), first_);
  stream.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string head = stream.Read(400);
  TlsConnection kept(edge_->port(), first_);
  const Certificate second = Make({"localhost"});
  ASSERT_TRUE(edge_->SetCertificate(second).ok());
  EXPECT_THROW(TlsConnection(edge_->port(), first_), boost::system::system_error);
  TlsConnection fresh(edge_->port(), second);
  for (TlsConnection* connection : {&kept, &fresh}) {
    connection->Send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(connection->ReadAll(), HasSubstr("by TLS\n"));
  }
  EXPECT_THAT(stream.Read(60), HasSubstr("data: tick\n\n"));
}

TEST_F(HttpsEdgeTest, AReplyMaySetSeveralCookies) {
  Start();
  const std::string reply = Ask("/cookies");
  EXPECT_THAT(reply, HasSubstr("\r\nSet-Cookie: a=1\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\nSet-Cookie: b=2\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\nCache-Control: public\r\n"));
  EXPECT_THAT(reply, Not(HasSubstr("no-store")));
}

TEST_F(HttpsEdgeTest, ABadCertificateChangesNothing) {
  Start();
  const absl::Status status = edge_->SetCertificate({first_.certificate_pem, Make({"localhost"}).key_pem});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Ask("/"), HasSubstr("by TLS\n"));
  options_.certificate = Certificate{"no certificate", "no key"};
  EXPECT_EQ(HttpEdge::Start(options_, HttpSite()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HttpsEdgeTest, AHandshakeThatDoesNotComeHoldsNoPlace) {
  options_.max_connections = 2;
  Start();
  boost::asio::io_context io;
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 4; ++i) {
    silent.emplace_back(io);
    silent.back().connect(Place(edge_->port()));
    // The beginning of a handshake.
    boost::asio::write(silent.back(), boost::asio::buffer(std::string("\x16\x03\x01", 3)));
  }
  EXPECT_THAT(Ask("/"), HasSubstr("by TLS\n"));
}

TEST_F(HttpsEdgeTest, ASlowHandshakeIsCutOff) {
  options_.timeout = std::chrono::milliseconds(200);
  Start();
  boost::asio::io_context io;
  tcp::socket silent(io);
  silent.connect(Place(edge_->port()));
  char byte = 0;
  boost::system::error_code error;
  // Ends by the edge's timeout alone: the socket itself has none.
  boost::asio::read(silent, boost::asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error);
}

}  // namespace
}  // namespace farandole
