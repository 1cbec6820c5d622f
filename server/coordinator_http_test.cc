// The HTTP edge of a coordinator.

#include <memory>
#include <string>
#include <utility>

#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/coordinator_fixture.h"

namespace farandole {
namespace {

namespace http = boost::beast::http;
using ::testing::HasSubstr;
using ::testing::Not;
using Response = http::response<http::string_body>;

class CoordinatorHttpTest : public CoordinatorFixture {
 protected:
  CoordinatorHttpTest() { options_.http = "127.0.0.1:0"; }

  Response Get(const std::string& target, const std::string& token = "") {
    const std::string address = coordinator_->http_address();
    const size_t colon = address.rfind(':');
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket socket(io);
    boost::asio::connect(
        socket, boost::asio::ip::tcp::resolver(io).resolve(address.substr(0, colon), address.substr(colon + 1)));
    http::request<http::empty_body> request(http::verb::get, target, 11);
    request.set(http::field::host, address);
    if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
    http::write(socket, request);
    boost::beast::flat_buffer buffer;
    Response response;
    http::read(socket, buffer, response);
    return response;
  }
};

TEST_F(CoordinatorHttpTest, HealthIsOpenAndMetricsNeedAnAdminToken) {
  Start();
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
  const Response unknown = Get("/metrics");
  EXPECT_EQ(unknown.result_int(), 401u);
  EXPECT_THAT(std::string(unknown[http::field::www_authenticate]), HasSubstr("Bearer"));
  EXPECT_EQ(Get("/metrics", "wrong").result_int(), 401u);
  v1::CreateTenantRequest create;
  create.set_tenant("other");
  create.set_idempotency_key("k");
  EXPECT_EQ(Get("/metrics", Client().CreateTenant(create)->token()).result_int(), 403u);
  EXPECT_EQ(Get("/metrics", coordinator_->token()).result_int(), 200u);
  EXPECT_EQ(Get("/", coordinator_->token()).result_int(), 404u);
}

TEST_F(CoordinatorHttpTest, MetricsCountWhatHappened) {
  Start();
  const auto workers = Train("train", 2);
  AgreeOn("grad/0", workers);
  const std::string running = Get("/metrics", coordinator_->token()).body();
  for (const char* line :
       {"farandole_jobs{state=\"running\",tenant=\"default\"} 1", "farandole_workers{tenant=\"default\"} 2",
        "farandole_streams 2", "farandole_messages_received_total{type=\"ready\"} 2",
        "farandole_messages_sent_total{type=\"slot_assigned\"} 2",
        "farandole_job_negotiation_messages_total{job=\"train\",tenant=\"default\"} 4",
        "farandole_epochs_formed_total 1", "farandole_epochs_ended_total 0", "farandole_store_errors_total 0",
        "farandole_build_info{version="}) {
    EXPECT_THAT(running, HasSubstr(line));
  }
  EXPECT_THAT(running, Not(HasSubstr("farandole_commit_seconds_count 0")));
  EXPECT_THAT(running, Not(HasSubstr("farandole_step_seconds_count 0")));
  Leave(workers);
  EXPECT_THAT(Get("/metrics", coordinator_->token()).body(),
              HasSubstr("farandole_jobs{state=\"finished\",tenant=\"default\"} 1"));
}

}  // namespace
}  // namespace farandole
