#include "server/spans/span_exporter.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/tls/certificate.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "web/http_edge.h"
#include "web/http_message.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A collector on loopback that answers as the test says.
class Collector {
 public:
  using Answer = std::function<HttpReply(int number)>;

  // With a certificate it speaks HTTPS.
  explicit Collector(Answer answer, std::optional<Certificate> certificate = std::nullopt)
      : answer_(std::move(answer)), scheme_(certificate.has_value() ? "https" : "http") {
    HttpSite site;
    site.routes.push_back(
        {"POST", "/v1/traces", HttpAccess::kNobody,
         [this](const HttpRequest& request, const HttpIdentity&, HttpAnswer take) { Take(request, std::move(take)); }});
    HttpEdgeOptions options;
    options.max_body_bytes = 8 << 20;
    options.certificate = std::move(certificate);
    edge_ = HttpEdge::Start(options, std::move(site)).value();
  }
  ~Collector() { Release(); }

  std::string url() const { return absl::StrCat(scheme_, "://127.0.0.1:", edge_->port(), "/v1/traces"); }
  // Waits for the request with this number, from 0.
  HttpRequest Await(size_t number) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() > number; });
    return requests_[number];
  }
  // Answers all that have had no answer.
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const HttpAnswer& take : held_) take({});
    held_.clear();
  }

 private:
  // Status 0: none yet.
  void Take(const HttpRequest& request, HttpAnswer take) {
    const std::lock_guard<std::mutex> lock(mutex_);
    HttpReply reply = answer_(static_cast<int>(requests_.size()));
    requests_.push_back(request);
    reply.status == 0 ? held_.push_back(std::move(take)) : take(std::move(reply));
    changed_.notify_all();
  }

  const Answer answer_;
  const std::string scheme_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HttpRequest> requests_;
  std::vector<HttpAnswer> held_;
  std::unique_ptr<HttpEdge> edge_;
};

HttpReply WithStatus(unsigned status, const std::string& body = "{}") {
  HttpReply reply;
  reply.status = status;
  reply.body = body;
  return reply;
}

class SpanExporterTest : public ::testing::Test {
 protected:
  SpanExporterTest() {
    bounds_.gather = absl::Milliseconds(10);
    times_.retry = absl::Milliseconds(10);
    times_.longest_retry = absl::Milliseconds(50);
  }

  std::unique_ptr<SpanExporter> Export(const std::string& url) {
    OtlpOptions options;
    options.url = url;
    options.headers = {{"Authorization", "Bearer secret"}};
    options.ca_pem = ca_pem_;
    return std::make_unique<SpanExporter>(options, bounds_, times_, &metrics_);
  }
  static Span Named(const std::string& name) {
    Span span;
    span.name = name;
    span.trace_id = std::string(16, '\x01');
    span.id = std::string(8, '\x02');
    return span;
  }
  // The number of spans with this result.
  std::string Count(const std::string& result) const {
    const std::string text = metrics_.Text();
    const std::string row = absl::StrCat("farandole_spans_total{result=\"", result, "\"} ");
    const size_t at = text.find(row);
    if (at == std::string::npos) return "none";
    const size_t begin = at + row.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  // Of the collector's authority.
  std::string ca_pem_;
  SpanQueue::Bounds bounds_;
  ExportTimes times_;
  Metrics metrics_{"test", absl::UnixEpoch()};
};

TEST_F(SpanExporterTest, ABatchIsPostedWithItsHeaders) {
  Collector collector([](int) { return WithStatus(200); });
  bounds_.gather = absl::Milliseconds(200);
  const auto exporter = Export(collector.url());
  exporter->Add(Named("first"));
  exporter->Add(Named("second"));
  const HttpRequest request = collector.Await(0);
  EXPECT_THAT(request.body, HasSubstr("first"));
  EXPECT_THAT(request.body, HasSubstr("second"));
  EXPECT_EQ(request.token, "secret");
  exporter->Stop();
  EXPECT_EQ(Count("sent"), "2");
}

TEST_F(SpanExporterTest, ACollectorProvesItselfByItsCertificate) {
  const TestAuthority authority("collectors");
  const absl::Time now = absl::Now();
  Collector collector([](int) { return WithStatus(200); },
                      authority.Issue({}, now - absl::Hours(1), now + absl::Hours(1)));
  ca_pem_ = authority.pem();
  auto exporter = Export(collector.url());
  exporter->Add(Named("secret"));
  EXPECT_THAT(collector.Await(0).body, HasSubstr("secret"));
  exporter->Stop();
  EXPECT_EQ(Count("sent"), "1");
  ca_pem_ = TestAuthority("others").pem();
  exporter = Export(collector.url());
  exporter->Add(Named("kept"));
  exporter->Stop();
  EXPECT_EQ(Count("sent"), "1") << "it is not to be trusted";
  EXPECT_EQ(Count("dropped"), "1");
}

TEST_F(SpanExporterTest, WhatCannotBeTakenNowIsSentAgain) {
  Collector collector([](int number) {
    static constexpr unsigned kStatuses[] = {429, 502, 503, 504, 200};
    return WithStatus(kStatuses[number]);
  });
  const auto exporter = Export(collector.url());
  exporter->Add(Named("patient"));
  for (size_t i = 0; i < 5; ++i) EXPECT_THAT(collector.Await(i).body, HasSubstr("patient")) << i;
  exporter->Stop();
  EXPECT_EQ(Count("sent"), "1");
  EXPECT_EQ(Count("refused"), "0");
}

TEST_F(SpanExporterTest, ThePauseThatTheCollectorWantsIsKept) {
  Collector collector([](int number) {
    HttpReply reply = WithStatus(number == 0 ? 503 : 200);
    if (number == 0) reply.headers.emplace_back("Retry-After", "1");
    return reply;
  });
  const auto exporter = Export(collector.url());
  exporter->Add(Named("patient"));
  collector.Await(0);
  const absl::Time refused = SteadyNow();
  collector.Await(1);
  EXPECT_GT(SteadyNow() - refused, absl::Milliseconds(900));
}

TEST_F(SpanExporterTest, WhatIsRefusedIsNotSentAgain) {
  Collector collector([](int number) {
    if (number == 0) return WithStatus(400, "no such thing");
    return WithStatus(200, R"({"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}})");
  });
  const auto exporter = Export(collector.url());
  exporter->Add(Named("wrong"));
  collector.Await(0);
  exporter->Add(Named("old"));
  exporter->Add(Named("good"));
  EXPECT_THAT(collector.Await(1).body, Not(HasSubstr("wrong")));
  exporter->Stop();
  // The two may have gone together, or one after the other, which the collector rejects both times.
  EXPECT_THAT(Count("refused"), ::testing::AnyOf("2", "3"));
}

TEST_F(SpanExporterTest, SpansWaitForACollectorThatIsAway) {
  std::string url;
  {
    const Collector gone([](int) { return WithStatus(200); });
    url = gone.url();
  }
  bounds_.bytes = 10 << 10;
  const auto exporter = Export(url);
  const absl::Time begun = SteadyNow();
  for (int i = 0; i < 200; ++i) exporter->Add(Named(absl::StrCat("span", i)));
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(1)) << "nobody waits for it";
  exporter->Stop();
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(2));
  EXPECT_EQ(Count("dropped"), "200") << "some because the queue was full, the others at the end";
  EXPECT_EQ(Count("sent"), "none");
  exporter->Add(Named("late"));
  EXPECT_EQ(Count("dropped"), "201");
}

TEST_F(SpanExporterTest, ACollectorThatHangsDelaysTheEndForAShortTimeOnly) {
  Collector collector([](int) { return WithStatus(0); });
  times_.farewell = absl::Milliseconds(200);
  const auto exporter = Export(collector.url());
  exporter->Add(Named("lost"));
  collector.Await(0);
  const absl::Time begun = SteadyNow();
  exporter->Stop();
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(5)) << "one attempt takes 10 s";
  EXPECT_EQ(Count("dropped"), "1");
}

TEST_F(SpanExporterTest, TheLastSpansAreSentAtTheEnd) {
  Collector collector([](int) { return WithStatus(200); });
  bounds_.gather = absl::Hours(1);
  bounds_.batch_spans = 2;
  const auto exporter = Export(collector.url());
  exporter->Add(Named("one"));
  exporter->Stop();
  EXPECT_THAT(collector.Await(0).body, HasSubstr("one"));
  EXPECT_EQ(Count("sent"), "1");
  EXPECT_EQ(Count("dropped"), "0");
}

}  // namespace
}  // namespace farandole
