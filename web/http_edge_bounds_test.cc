#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read_until.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "web/http_edge.h"

namespace farandole {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kSent = 64 * kMiB;
// Of the process, while it takes kSent: without a bound of the edge's buffer it is kSent and more.
constexpr size_t kMostGrowth = 16 * kMiB;
constexpr char kChunked[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

size_t ResidentBytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class HttpEdgeBoundsTest : public ::testing::Test {
 protected:
  HttpEdgeBoundsTest() {
    HttpSite site;
    site.routes.push_back(DirectRoute("POST", "/echo", HttpAccess::kNobody, [](const HttpRequest& request) {
      HttpReply reply;
      reply.body = std::to_string(request.body.size()) + " bytes\n";
      return reply;
    }));
    site.routes.push_back({"GET", "/stream", HttpAccess::kNobody,
                           [this](const HttpRequest&, const HttpIdentity&, const HttpAnswer& answer) {
                             HttpReply reply;
                             reply.stream = stream_;
                             answer(std::move(reply));
                           }});
    site.tick = [this] { stream_->Send("data: tick\n\n"); };
    edge_ = HttpEdge::Start({}, std::move(site)).value();
    socket_.connect(tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), edge_->port()));
  }

  // False: the edge has closed.
  bool Send(const std::string& text) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(text), error);
    return !error;
  }

  // The next bytes until then, or all that there are.
  std::string ReadUntil(const std::string& end) {
    boost::system::error_code error;
    const size_t size = boost::asio::read_until(socket_, boost::asio::dynamic_buffer(read_), end, error);
    const std::string text = read_.substr(0, error ? read_.size() : size);
    read_.erase(0, text.size());
    return text;
  }

  // The reply to a beginning that is followed by kSent of `again`, and by how much the process has grown meanwhile.
  std::pair<std::string, size_t> Flood(const std::string& begin, const std::string& again) {
    const size_t before = ResidentBytes();
    size_t peak = before;
    std::string piece;
    while (piece.size() < 64 << 10) piece += again;
    bool is_open = Send(begin);
    for (size_t sent = 0; is_open && sent < kSent; sent += piece.size()) {
      is_open = Send(piece);
      if (sent % kMiB < piece.size()) peak = std::max(peak, ResidentBytes());
    }
    std::string reply = ReadUntil("}\n");
    return {std::move(reply), std::max(peak, ResidentBytes()) - before};
  }

  const std::shared_ptr<EventStream> stream_ = std::make_shared<EventStream>();
  std::unique_ptr<HttpEdge> edge_;
  boost::asio::io_context io_;
  tcp::socket socket_{io_};
  std::string read_;
};

struct Endless {
  const char* name;
  std::string begin;
  std::string again;
  const char* status;
};

class EndlessRequestTest : public HttpEdgeBoundsTest, public ::testing::WithParamInterface<Endless> {};

TEST_P(EndlessRequestTest, CostsABoundedMemoryAndIsRefused) {
  const auto [reply, growth] = Flood(GetParam().begin, GetParam().again);
  EXPECT_LT(growth, kMostGrowth);
  EXPECT_THAT(reply, StartsWith(std::string("HTTP/1.1 ") + GetParam().status));
  EXPECT_THAT(reply, HasSubstr("\"error\":\"the request"));
}

INSTANTIATE_TEST_SUITE_P(
    Parts, EndlessRequestTest,
    ::testing::Values(Endless{"Extension", std::string(kChunked) + "1;", "a", "413"},
                      Endless{"ExtensionForAnotherHost",
                              "GET /nothing HTTP/1.1\r\nHost: evil\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a",
                              "413"},
                      Endless{"ChunkSize", kChunked, "0", "413"},
                      Endless{"Trailer", std::string(kChunked) + "0\r\nX: ", "a", "413"},
                      Endless{"Trailers", std::string(kChunked) + "0\r\n", "X: aaaaaaaaaaaaa\r\n", "413"},
                      Endless{"RequestLine", "GET /", "a", "431"}, Endless{"EmptyLines", "", "\r\n", "400"},
                      Endless{"Body", kChunked, "10\r\n0123456789abcdef\r\n", "413"}),
    [](const auto& row) { return row.param.name; });

TEST_F(HttpEdgeBoundsTest, TheLargestRequestsAreReadOneBehindTheOther) {
  const HttpEdgeOptions options;
  const std::string body(options.max_body_bytes, 'b');
  const auto padded = [&](std::string header) {
    header += "Host: localhost\r\nX: ";
    return header + std::string(options.max_header_bytes - header.size() - 4, 'h') + "\r\n\r\n";
  };
  std::string requests = padded("POST /echo HTTP/1.1\r\nContent-Length: 65536\r\n") + body;
  const std::string chunked = padded("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n");
  requests += chunked + "10000\r\n" + body + "\r\n0\r\n\r\n";
  // As many chunks as can be, with extensions.
  requests += chunked;
  for (size_t i = 0; i < body.size(); ++i) requests += "1;name=\"value\"\r\nb\r\n";
  requests += "0\r\nTrailer: text\r\n\r\n";
  ASSERT_TRUE(Send(requests));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ReadUntil("bytes\n"), HasSubstr("\r\n\r\n65536 bytes\n")) << i;
}

// Nothing that comes behind the request is read as one.
TEST_F(HttpEdgeBoundsTest, AReplyThatGoesOnStaysWhateverItsReaderSends) {
  ASSERT_TRUE(Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(256 << 10, 'x')));
  EXPECT_THAT(ReadUntil("tick\n\n"), HasSubstr("data: tick"));
}

}  // namespace
}  // namespace farandole
