#include "web/http_edge.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// One raw connection.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(io_) {
    socket_.connect(tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), port));
  }
  void Send(const std::string& text) { boost::asio::write(socket_, boost::asio::buffer(text)); }
  // All that comes until the other end closes.
  std::string ReadAll() {
    std::string text;
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(text), error);
    return text;
  }
  // One reply with a body of which `end` is the end.
  std::string ReadUntil(const std::string& end) {
    std::string text;
    std::vector<char> byte(1);
    while (text.find(end) == std::string::npos && boost::asio::read(socket_, boost::asio::buffer(byte)) == 1)
      text += byte[0];
    return text;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
};

class HttpEdgeTest : public ::testing::Test {
 protected:
  void Start() {
    HttpSite site;
    site.caller_of = [](const HttpRequest& request) {
      HttpCaller caller;
      const std::string& who = request.token + request.session;
      if (who == "admin") caller.identity = {HttpAccess::kAdmin, "team"};
      if (who == "tenant") caller.identity = {HttpAccess::kTenant, "team"};
      if (who == "flood") caller.refusal = HttpError(429, "too many");
      return caller;
    };
    const auto echo = [](const HttpRequest& request) {
      HttpReply reply;
      reply.body = request.method + " " + request.path + " " + request.query + " " + request.body + "\n";
      return reply;
    };
    site.routes.push_back(DirectRoute("GET", "/open", HttpAccess::kNobody, echo));
    site.routes.push_back(DirectRoute("POST", "/tenant", HttpAccess::kTenant, echo));
    site.routes.push_back(DirectRoute("GET", "/admin", HttpAccess::kAdmin, echo));
    site.routes.push_back(
        {"GET", "/never", HttpAccess::kNobody, [this](const HttpRequest&, const HttpIdentity&, HttpAnswer answer) {
           const std::lock_guard<std::mutex> lock(mutex_);
           unanswered_ = std::move(answer);
           asked_.notify_all();
         }});
    site.routes.push_back(DirectRoute("GET", "/held", HttpAccess::kNobody, [this](const HttpRequest& request) {
      HttpReply reply;
      // The large one is more than the sockets' buffers take.
      reply.body = request.query == "large" ? std::string(32 << 20, 'x') : "small\n";
      reply.held = held_;
      return reply;
    }));
    AddLateReplies(&site);
    site.routes.push_back(DirectRoute("GET", "/one/*", HttpAccess::kNobody, echo));
    site.routes.push_back(DirectRoute("GET", "/one/*/parts", HttpAccess::kNobody, echo));
    site.routes.push_back({"GET", "/later", HttpAccess::kTenant,
                           [this](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                             helpers_.emplace_back([answer = std::move(answer), tenant = identity.tenant,
                                                    peer = request.peer, host = request.host] {
                               HttpReply reply;
                               reply.body = tenant + " " + peer + " " + host + " \n";
                               answer(std::move(reply));
                             });
                           }});
    site.routes.push_back(
        {"GET", "/stream", HttpAccess::kNobody,
         [this](const HttpRequest&, const HttpIdentity&, const HttpAnswer& answer) { answer(OpenStream(false)); }});
    site.routes.push_back(
        {"GET", "/own-stream", HttpAccess::kTenant,
         [this](const HttpRequest&, const HttpIdentity&, const HttpAnswer& answer) { answer(OpenStream(false)); }});
    site.routes.push_back(
        {"GET", "/flood", HttpAccess::kNobody,
         [this](const HttpRequest&, const HttpIdentity&, const HttpAnswer& answer) { answer(OpenStream(true)); }});
    site.tick = [this] { Tick(); };
    edge_ = HttpEdge::Start(options_, std::move(site)).value();
  }

  // Replies that are written after their routes have answered.
  void AddLateReplies(HttpSite* site) {
    site->routes.push_back(DirectRoute("GET", "/long", HttpAccess::kNobody, [](const HttpRequest& request) {
      HttpReply reply;
      reply.may_compress = request.query != "secret";
      reply.complete = [](HttpReply* complete) { complete->body = std::string(5000, 'x') + "\n"; };
      return reply;
    }));
    site->routes.push_back(DirectRoute("GET", "/in-turn", HttpAccess::kNobody, [this](const HttpRequest&) {
      HttpReply reply;
      reply.turn_of = "team";
      reply.may_compress = true;
      reply.complete = [this](HttpReply* complete) {
        std::unique_lock<std::mutex> lock(mutex_);
        asked_.wait(lock, [this] { return may_write_; });
        complete->body = std::string(5000, 'x') + "\n";
      };
      return reply;
    }));
    site->routes.push_back(DirectRoute("GET", "/throws", HttpAccess::kNobody, [](const HttpRequest& request) {
      HttpReply reply;
      reply.turn_of = request.query;
      reply.complete = [](HttpReply*) { throw std::out_of_range("beyond the end"); };
      return reply;
    }));
  }

  // The whole answer to one request, which asks for the connection's end.
  std::string Ask(const std::string& line, const std::string& headers = "", const std::string& body = "") {
    Connection connection(edge_->port());
    connection.Send(line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n" + body);
    return connection.ReadAll();
  }

  ~HttpEdgeTest() override { End(); }
  void End() {
    for (std::thread& helper : helpers_) helper.join();
    helpers_.clear();
    edge_.reset();
  }

  // Of the edge's thread.
  HttpReply OpenStream(bool floods) {
    HttpReply reply;
    reply.stream = std::make_shared<EventStream>();
    reply.stream->Send("data: 1\n\n");
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.emplace_back(reply.stream, floods);
    return reply;
  }
  void Tick() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [stream, floods] : streams_) {
      for (int i = 0; i < (floods ? 3 : 1); ++i)
        stream->Send("data: tick" + (floods ? std::string(60'000, 'x') : "") + "\n\n");
    }
    const auto has_ended = [](const auto& one) { return !one.first->is_open(); };
    streams_.erase(std::remove_if(streams_.begin(), streams_.end(), has_ended), streams_.end());
    asked_.notify_all();
  }
  size_t StreamsOpen() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_.size();
  }
  void AwaitStreams(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    asked_.wait(lock, [&] { return streams_.size() == count; });
  }

  HttpEdgeOptions options_;
  std::vector<std::pair<std::shared_ptr<EventStream>, bool>> streams_;
  std::mutex mutex_;
  std::condition_variable asked_;
  // The replies of /in-turn go on.
  bool may_write_ = false;
  // Of the replies of /held.
  const std::shared_ptr<const int> held_ = std::make_shared<const int>(0);
  // Of /never, which the test answers.
  HttpAnswer unanswered_;
  // Of the edge's thread; each answers one request.
  std::vector<std::thread> helpers_;
  std::unique_ptr<HttpEdge> edge_;
};

TEST_F(HttpEdgeTest, ARouteGetsPathQueryAndBody) {
  Start();
  EXPECT_THAT(Ask("GET /open?a=b"), HasSubstr("\r\n\r\nGET /open a=b \n"));
  EXPECT_THAT(Ask("POST /tenant", "Authorization: Bearer tenant\r\nContent-Length: 2\r\n", "hi"),
              HasSubstr("POST /tenant  hi\n"));
}

TEST_F(HttpEdgeTest, AccessIsTheRoutesToSay) {
  Start();
  EXPECT_THAT(Ask("GET /admin"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Ask("GET /admin"), HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_THAT(Ask("GET /admin", "Authorization: Bearer wrong\r\n"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Ask("GET /admin", "Authorization: Basic admin\r\n"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Ask("GET /admin", "Authorization: Bearer tenant\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Ask("GET /admin", "Authorization: bearer admin\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEdgeTest, AReplyKeepsWhatItHoldsUntilItIsWritten) {
  Start();
  Connection connection(edge_->port());
  connection.Send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n");
  connection.ReadUntil("small\n");
  // The next request is read when the reply is written.
  connection.Send("GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
  connection.ReadUntil("GET /open  \n");
  EXPECT_EQ(held_.use_count(), 1);
  {
    Connection slow(edge_->port());
    slow.Send("GET /held?large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    slow.ReadUntil("HTTP/1.1 200");
    EXPECT_GT(held_.use_count(), 1);
  }
  // Its connection has ended. Ticks wake this up.
  std::unique_lock<std::mutex> lock(mutex_);
  asked_.wait(lock, [this] { return held_.use_count() == 1; });
}

TEST_F(HttpEdgeTest, ALongReplyIsCompressedForThoseWhoTakeIt) {
  Start();
  const std::string packed = Ask("GET /long", "Accept-Encoding: gzip, deflate\r\n");
  EXPECT_THAT(packed, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
  EXPECT_THAT(packed, HasSubstr("\r\nVary: Accept-Encoding\r\n"));
  EXPECT_LT(packed.size(), 1000u);
  const std::string body = packed.substr(packed.find("\r\n\r\n") + 4);
  EXPECT_THAT(packed, HasSubstr("Content-Length: " + std::to_string(body.size()) + "\r\n"));
  EXPECT_THAT(body, StartsWith("\x1f\x8b"));
  for (const char* header : {"", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0\r\n"}) {
    const std::string plain = Ask("GET /long", header);
    EXPECT_THAT(plain, HasSubstr("xxxxx\n")) << header;
    EXPECT_THAT(plain, Not(HasSubstr("Content-Encoding"))) << header;
  }
  const std::string secret = Ask("GET /long?secret", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(secret, HasSubstr("xxxxx\n"));
  EXPECT_THAT(secret, Not(HasSubstr("Vary")));
}

TEST_F(HttpEdgeTest, AReplyThatCannotBeMadeEndsItsConnectionOnly) {
  Start();
  Connection other(edge_->port());
  for (const char* line : {"GET /throws", "GET /throws?team"}) EXPECT_EQ(Ask(line), "");
  other.Send("GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(other.ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEdgeTest, ALongReplyThatIsWrittenInTurnDelaysNobody) {
  Start();
  std::vector<std::unique_ptr<Connection>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(std::make_unique<Connection>(edge_->port()));
    waiting.back()->Send(
        "GET /in-turn HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
  }
  EXPECT_THAT(Ask("GET /open"), HasSubstr("GET /open"));
  // Nobody waits for this one's reply any more.
  waiting.pop_back();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    may_write_ = true;
    asked_.notify_all();
  }
  for (const auto& one : waiting) EXPECT_THAT(one->ReadAll(), HasSubstr("Content-Encoding: gzip"));
}

TEST_F(HttpEdgeTest, ACookieIsFoundAmongOthers) {
  Start();
  EXPECT_THAT(Ask("GET /admin", "Cookie: a=b; farandole_session=admin; c=d\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask("GET /admin", "Cookie: farandole_session=admin\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask("GET /admin", "Cookie: xfarandole_session=admin; ; =\r\n"), StartsWith("HTTP/1.1 401"));
}

TEST_F(HttpEdgeTest, ARefusedCallerGetsNoFurther) {
  Start();
  EXPECT_THAT(Ask("GET /admin", "Authorization: Bearer flood\r\n"), StartsWith("HTTP/1.1 429"));
}

TEST_F(HttpEdgeTest, APathMayEndInOneMorePart) {
  Start();
  EXPECT_THAT(Ask("GET /one/a.b?c"), HasSubstr("GET /one/a.b c \n"));
  EXPECT_THAT(Ask("GET /one/a.b/parts?c"), HasSubstr("GET /one/a.b/parts c \n"));
  for (const char* path : {"/one/", "/one", "/one/a/b", "/ones/a", "/one//parts", "/one/a/parts/"}) {
    EXPECT_THAT(Ask(std::string("GET ") + path), StartsWith("HTTP/1.1 404")) << path;
  }
}

TEST_F(HttpEdgeTest, AnAnswerMayComeLaterFromAnotherThread) {
  Start();
  Connection connection(edge_->port());
  for (int i = 0; i < 20; ++i) {
    connection.Send("GET /later HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tenant\r\n\r\n");
    EXPECT_THAT(connection.ReadUntil(" \n"), HasSubstr("\r\n\r\nteam 127.0.0.1 localhost \n"));
  }
}

TEST_F(HttpEdgeTest, UnknownPathsAndMethodsAreAnsweredInJson) {
  Start();
  const std::string unknown = Ask("GET /nothing");
  EXPECT_THAT(unknown, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(unknown, HasSubstr("Content-Type: application/json"));
  const std::string body = unknown.substr(unknown.find("\r\n\r\n") + 4);
  EXPECT_EQ(nlohmann::json::parse(body)["error"], "there is nothing at /nothing");
  const std::string method = Ask("DELETE /open");
  EXPECT_THAT(method, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(method, HasSubstr("Allow: GET"));
}

TEST_F(HttpEdgeTest, AConnectionServesRequestAfterRequest) {
  Start();
  Connection connection(edge_->port());
  for (int i = 0; i < 3; ++i) {
    connection.Send("GET /open?" + std::to_string(i) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(connection.ReadUntil(" \n"), HasSubstr("GET /open " + std::to_string(i)));
  }
}

TEST_F(HttpEdgeTest, WhatIsNoHttpIsAnswered400) {
  Start();
  for (const std::string& nonsense :
       {std::string("\x16\x03\x01\x02\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /open HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), std::string("GET /open HTTP/9.9\r\n\r\n")}) {
    Connection connection(edge_->port());
    connection.Send(nonsense);
    EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 400"));
  }
  EXPECT_THAT(Ask("GET /open"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEdgeTest, HeadersAndBodiesAreBounded) {
  Start();
  EXPECT_THAT(Ask("GET /open", "X: " + std::string(options_.max_header_bytes, 'x') + "\r\n"),
              StartsWith("HTTP/1.1 431"));
  const std::string length = std::to_string(options_.max_body_bytes + 1);
  EXPECT_THAT(Ask("POST /tenant", "Content-Length: " + length + "\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpEdgeTest, ASlowClientIsCutOff) {
  options_.timeout = std::chrono::milliseconds(50);
  Start();
  Connection connection(edge_->port());
  connection.Send("GET /open HTTP/1.1\r\nHos");
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST_F(HttpEdgeTest, AConnectionThatIsAwaitedGivesItsPlaceToTheNext) {
  options_.max_connections = 2;
  Start();
  Connection silent(edge_->port());
  Connection known(edge_->port());
  const std::string request = "POST /tenant HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tenant\r\n\r\n";
  known.Send(request);
  EXPECT_THAT(known.ReadUntil(" \n"), StartsWith("HTTP/1.1 200"));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Ask("GET /open"), StartsWith("HTTP/1.1 200")) << i;
  EXPECT_EQ(silent.ReadAll(), "") << "it was the weakest";
  known.Send(request);
  EXPECT_THAT(known.ReadUntil(" \n"), StartsWith("HTTP/1.1 200")) << "a token was shown on it";
}

TEST_F(HttpEdgeTest, WhereAllAreBeingAnsweredOneMoreIsTurnedAway) {
  options_.max_connections = 1;
  Start();
  Connection first(edge_->port());
  first.Send("GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n");
  {
    std::unique_lock<std::mutex> lock(mutex_);
    asked_.wait(lock, [this] { return unanswered_ != nullptr; });
  }
  std::vector<std::unique_ptr<Connection>> more;
  for (int i = 0; i < 3; ++i) {
    more.push_back(std::make_unique<Connection>(edge_->port()));
    more.back()->Send("GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(more.back()->ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 503")) << i;
  }
  unanswered_(HttpReply());
}

TEST_F(HttpEdgeTest, ATenantWithMostConnectionsGivesOneToTheNext) {
  options_.max_connections = 3;
  Start();
  std::vector<std::unique_ptr<Connection>> streams;
  for (const std::string who : {"tenant", "tenant", "admin"}) {  // of one tenant
    streams.push_back(std::make_unique<Connection>(edge_->port()));
    streams.back()->Send("GET /own-stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + who + "\r\n\r\n");
    EXPECT_THAT(streams.back()->ReadUntil("\r\n\r\n"), HasSubstr("text/event-stream")) << who;
  }
  ASSERT_THAT(Ask("GET /open"), StartsWith("HTTP/1.1 200"));
  streams[1]->ReadAll();  // returns at its end; the cluster's is kept, though it is newer
}

TEST_F(HttpEdgeTest, AStrangerThatDoesNotReadItsReplyGivesItsPlaceToTheNext) {
  options_.max_connections = 1;
  Start();
  Connection first(edge_->port());
  first.Send("GET /held?large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(first.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask("GET /open"), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(first.ReadAll().size(), size_t{32} << 20) << "it lost its place";
}

TEST_F(HttpEdgeTest, HundredsOfPagesFollowAndAskAtTheSameMoment) {
  constexpr int kPages = 300;
  Start();
  std::vector<std::unique_ptr<Connection>> streams, requests;
  const std::string known = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tenant\r\n\r\n";
  for (int i = 0; i < kPages; ++i) {
    streams.push_back(std::make_unique<Connection>(edge_->port()));
    streams.back()->Send("GET /stream" + known);
    EXPECT_THAT(streams.back()->ReadUntil("\r\n\r\n"), HasSubstr("text/event-stream")) << i;
  }
  for (int i = 0; i < kPages; ++i) requests.push_back(std::make_unique<Connection>(edge_->port()));
  for (const auto& request : requests) request->Send("POST /tenant" + known);
  for (const auto& request : requests) EXPECT_THAT(request->ReadUntil(" \n"), StartsWith("HTTP/1.1 200"));
  for (const auto& request : requests) request->Send("POST /tenant" + known);
  for (const auto& request : requests) EXPECT_THAT(request->ReadUntil(" \n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEdgeTest, SilentConnectionsKeepNobodyOut) {
  Start();
  std::vector<std::unique_ptr<Connection>> silent;
  for (size_t i = 0; i < 2 * options_.max_strangers; ++i) silent.push_back(std::make_unique<Connection>(edge_->port()));
  EXPECT_THAT(Ask("GET /open"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEdgeTest, ARequestForAnotherHostIsMisdirected) {
  options_.host_names = {"farandole.example"};
  Start();
  const auto status_for = [this](const std::string& host) {
    Connection connection(edge_->port());
    connection.Send("GET /open HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n\r\n");
    return connection.ReadAll().substr(9, 3);
  };
  EXPECT_EQ(status_for("farandole.example"), "200");
  EXPECT_EQ(status_for("127.0.0.1:7071"), "200");
  EXPECT_EQ(status_for("evil.example:7071"), "421");
}

TEST_F(HttpEdgeTest, AReplyMayGoOnUntilItsReaderLeaves) {
  Start();
  auto reader = std::make_unique<Connection>(edge_->port());
  reader->Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reader->ReadUntil("data: 1\n\n"), HasSubstr("Content-Type: text/event-stream"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader->ReadUntil("\n\n"), "data: tick\n\n");
  Connection second(edge_->port());
  second.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  second.ReadUntil("\n\n");
  EXPECT_EQ(StreamsOpen(), 2u);
  reader.reset();
  AwaitStreams(1);
  second.ReadUntil("\n\n");
}

TEST_F(HttpEdgeTest, AReaderForWhomTooMuchWaitsIsCutOffAndOthersAreNot) {
  Start();
  Connection slow(edge_->port());
  slow.Send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Connection reader(edge_->port());
  reader.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  reader.ReadUntil("\n\n");
  AwaitStreams(1);
  reader.ReadUntil("\n\n");
}

TEST_F(HttpEdgeTest, APortInUseIsSaid) {
  Start();
  HttpEdgeOptions second;
  second.port = edge_->port();
  const absl::Status status = HttpEdge::Start(second, HttpSite()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(edge_->port())));
}

TEST_F(HttpEdgeTest, ItStopsWithConnectionsOpen) {
  Start();
  Connection idle(edge_->port());
  Connection half(edge_->port());
  half.Send("GET /op");
  edge_.reset();
  EXPECT_EQ(half.ReadAll(), "");
}

}  // namespace
}  // namespace farandole
