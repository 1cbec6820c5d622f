// The HTTP edge of a coordinator.
#include <zlib.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"

namespace farandole {
namespace {

namespace http = boost::beast::http;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Response = HttpResponse;

class CoordinatorHttpTest : public CoordinatorFixture {
 protected:
  CoordinatorHttpTest() { options_.http = "127.0.0.1:0"; }

  Response Get(const std::string& target, const std::string& token = "") {
    return HttpGet(coordinator_->http_address(), target, token);
  }
  // The file of a timeline of so many such parts.
  Response FileOfParts(int64_t parts, v1::TimelineChunk chunk) {
    Start();
    const auto workers = Train("mnist", 1);
    EXPECT_EQ(Post("/api/v1/jobs/mnist/timeline?record=on").result_int(), 200u);
    chunk.set_epoch(1);
    chunk.set_recording(1);
    chunk.set_events(1);
    for (int64_t part = 1; part <= parts; ++part) {
      v1::WorkerMessage message;
      chunk.set_sent_ns(part);
      *message.mutable_timeline_chunk() = chunk;
      EXPECT_TRUE(workers[0]->Send(message));
      const auto taken = workers[0]->Await([part](const v1::CoordinatorMessage& one) {
        return one.has_timeline_order() && one.timeline_order().sent_ns() == part;
      });
      EXPECT_TRUE(taken.ok()) << taken.status();
    }
    return Get("/api/v1/jobs/mnist/timeline/file", coordinator_->token());
  }
  // With the coordinator's own token; a page of `origin` sends it.
  Response Post(const std::string& target, const std::string& origin = "") {
    http::request<http::empty_body> request(http::verb::post, target, 11);
    request.set(http::field::authorization, "Bearer " + coordinator_->token());
    if (!origin.empty()) request.set(http::field::origin, origin);
    request.prepare_payload();
    return HttpExchange(coordinator_->http_address(), std::move(request));
  }
  // The ranks answer the next question for evidence, each with what `fill` adds to its answer.
  static void AnswerEvidence(const std::vector<std::unique_ptr<TestWorker>>& workers,
                             const std::function<void(v1::Evidence*)>& fill) {
    for (const auto& worker : workers) {
      const auto wanted = worker->Await([](const v1::CoordinatorMessage& one) { return one.has_evidence_wanted(); });
      ASSERT_TRUE(wanted.ok()) << wanted.status();
      v1::WorkerMessage message;
      message.mutable_evidence()->set_epoch(1);
      message.mutable_evidence()->set_inquiry(wanted->evidence_wanted().inquiry());
      fill(message.mutable_evidence());
      EXPECT_TRUE(worker->Send(message));
    }
  }
  // The lines that the audit log has of changes by the dashboard: "METHOD PATH TARGET OUTCOME", each with its end.
  std::string AuditedChanges() const {
    std::ifstream file(options_.state_dir + "/audit/changes-000001.jsonl");
    std::string text;
    for (std::string line; std::getline(file, line);) {
      const Json json = Json::parse(line);
      const std::string method = json.value("method", "");
      if (method.rfind("POST ", 0) != 0) continue;
      absl::StrAppend(&text, method, " ", json["target"].get<std::string>(), " ", json["outcome"].get<std::string>(),
                      "\n");
    }
    return text;
  }
};

TEST_F(CoordinatorHttpTest, HealthIsOpenAndMetricsNeedAnAdminToken) {
  Start();
  EXPECT_EQ(Get("/healthz").result_int(), 200u);
  const Response unknown = Get("/metrics");
  EXPECT_EQ(unknown.result_int(), 401u);
  EXPECT_THAT(std::string(unknown[http::field::www_authenticate]), HasSubstr("Bearer"));
  EXPECT_EQ(Get("/metrics", "wrong").result_int(), 401u);
  EXPECT_EQ(Get("/metrics", MakeTenant("other")).result_int(), 403u);
  EXPECT_EQ(Get("/metrics", coordinator_->token()).result_int(), 200u);
  EXPECT_EQ(Get("/nothing", coordinator_->token()).result_int(), 404u);
}

TEST_F(CoordinatorHttpTest, TwentyWrongTokensDoNotLockMetrics) {
  Start();
  int denied = 0;  // One more for each second that they take.
  while (denied < 100 && Get("/metrics", "wrong").result_int() != 429u) ++denied;
  EXPECT_TRUE(denied >= 20 && denied < 100) << denied;
  EXPECT_EQ(Get("/metrics", coordinator_->token()).result_int(), 200u);
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

TEST_F(CoordinatorHttpTest, JobsAreShownToWhoeverMaySeeThem) {
  Start();
  EXPECT_EQ(Get("/api/v1/jobs").result_int(), 401u);
  const auto workers = Train("mnist", 2);
  const std::string other = MakeTenant("other");
  const auto theirs = Train("resnet", 1, other);

  const Json all = Json::parse(Get("/api/v1/jobs", coordinator_->token()).body());
  EXPECT_EQ(all["jobs"].size(), 2u);
  EXPECT_GT(all["now_unix_ms"], 0);
  const Json own = Json::parse(Get("/api/v1/jobs", other).body());
  ASSERT_EQ(own["jobs"].size(), 1u);
  EXPECT_EQ(own["jobs"][0]["job"], "resnet");
  EXPECT_EQ(own["jobs"][0]["state"], "running");

  const Json job = Json::parse(Get("/api/v1/jobs/mnist", coordinator_->token()).body());
  EXPECT_EQ(job["reason"], "epoch 1 formed: all 2 workers joined");
  EXPECT_EQ(job["workers"].size(), 2u);
  EXPECT_EQ(job["checkpoints"], Json::array());
  EXPECT_FALSE(job["history"].empty());
  EXPECT_EQ(Get("/api/v1/jobs/resnet?tenant=other", coordinator_->token()).result_int(), 200u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist?tenant=default", other).result_int(), 403u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist", other).result_int(), 404u);
  const Response wrong = Get("/api/v1/jobs/a%20b", other);
  EXPECT_EQ(wrong.result_int(), 400u);
  EXPECT_THAT(std::string(Json::parse(wrong.body())["error"]), HasSubstr("job is 'a%20b'; it may have only letters"));
}

TEST_F(CoordinatorHttpTest, JobsAreSearchedAndThoseThatRunComeFirst) {
  Start();
  Leave(Train("old-mnist", 1));
  const auto workers = Train("mnist", 1);
  Leave(Train("resnet", 1));
  const auto found = [this](const std::string& query) {
    const Json list = Json::parse(Get("/api/v1/jobs?" + query, coordinator_->token()).body());
    std::string names;
    for (const Json& job : list["jobs"]) names += job["job"].get<std::string>() + " ";
    return names + list["found"].dump() + " of " + list["listed"].dump();
  };
  EXPECT_EQ(found("order=urgency"), "mnist resnet old-mnist 3 of 3");
  EXPECT_EQ(found("search=MNIST"), "mnist old-mnist 2 of 3");
  EXPECT_EQ(found("state=finished&state=failed&offset=1&limit=1"), "old-mnist 2 of 3");
  EXPECT_EQ(found("search=%2Fmn"), "mnist 1 of 3");
}

TEST_F(CoordinatorHttpTest, AJobIsShownByParts) {
  Start();
  const auto workers = Train("mnist", 2);
  const std::string other = MakeTenant("other");
  for (const char* view : {"page", "workers", "rank&rank=1", "hosts", "collectives", "checkpoints", "ranks",
                           "charts&rank=1", "charts&rank=all&range=1h", "charts&host=host"}) {
    const std::string address = absl::StrCat("/api/v1/jobs/mnist?tenant=default&view=", view);
    const Response shown = Get(address, coordinator_->token());
    EXPECT_EQ(shown.result_int(), 200u) << view << shown.body();
    EXPECT_EQ(Get(address, other).result_int(), 403u) << view;
    EXPECT_EQ(Get(address).result_int(), 401u) << view;
  }
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/mnist?view=workers", coordinator_->token()).body())["found"], 2);
  EXPECT_EQ(Get("/api/v1/jobs/mnist?view=ranks", coordinator_->token()).body().size(), 2u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist?view=rank&rank=2", coordinator_->token()).result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist?view=queue", coordinator_->token()).result_int(), 400u);
  EXPECT_EQ(Get("/api/v1/jobs/nothing?view=page", coordinator_->token()).result_int(), 404u);
  const std::pair<const char*, unsigned> refused[] = {
      {"view=charts", 400},        {"view=charts&rank=all&range=2h", 400},
      {"view=charts&rank=2", 404}, {"view=charts&host=x", 404},
      {"rank=some", 400},          {"rank=1&range=1y", 400}};
  for (const auto& [query, status] : refused) {
    const Response answer = Get(absl::StrCat("/api/v1/jobs/mnist?", query), coordinator_->token());
    EXPECT_EQ(answer.result_int(), status) << query << answer.body();
  }
}

TEST_F(CoordinatorHttpTest, WhatIsKeptOfAStallAsksNobody) {
  Start();
  const auto workers = Train("mnist", 2);
  const Json hang = Json::parse(Get("/api/v1/jobs/mnist/hang", coordinator_->token()).body());
  EXPECT_EQ(hang["state"], "none");
  EXPECT_EQ(hang["why"], "job mnist has not stalled since this coordinator has known it");
  EXPECT_EQ(Get("/api/v1/jobs/mnist/hang/archive", coordinator_->token()).result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs/nothing/hang", coordinator_->token()).result_int(), 404u);
  Leave(workers);
  // Of a job that is over, its workers are not asked either.
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/mnist/hang", coordinator_->token()).body())["state"], "none");
}

TEST_F(CoordinatorHttpTest, StacksAreAskedOfTheRanksThatAnswer) {
  Start();
  const auto workers = Train("mnist", 2);
  std::thread ranks([&workers] { AnswerEvidence(workers, [](v1::Evidence* one) { one->add_settings("a=b"); }); });
  const Json asked = Json::parse(Post("/api/v1/jobs/mnist/stacks").body());
  ranks.join();
  EXPECT_EQ(asked["state"], "asked");
  EXPECT_EQ(asked["answered"], 2);
  EXPECT_EQ(asked["settings"], Json::array({"a=b"}));
}

TEST_F(CoordinatorHttpTest, WhichTensorsCostTimeIsAskedOnceForAllThatLook) {
  Start();
  const std::string other = MakeTenant("other");
  const auto workers = Train("mnist", 2);
  const auto look = [this] { return Json::parse(Get("/api/v1/jobs/mnist/collectives", coordinator_->token()).body()); };
  std::thread ranks([&workers] {
    AnswerEvidence(workers, [](v1::Evidence* one) {
      v1::NameTimes* const times = one->mutable_flight()->add_times();
      times->set_name("grad");
      times->set_finished(10);
      times->set_waited_us(3'000);
    });
  });
  const Json asked = look();
  ranks.join();
  EXPECT_EQ(asked["state"], "asked");
  EXPECT_EQ(asked["answered"], 2);
  EXPECT_EQ(asked["collectives"][0]["name"], "grad");
  EXPECT_EQ(asked["collectives"][0]["waited_ms"], 6);
  // Nobody would answer another question.
  EXPECT_EQ(look()["collectives"], asked["collectives"]);
  EXPECT_EQ(Get("/api/v1/jobs/nothing/collectives", coordinator_->token()).result_int(), 404u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist/collectives?tenant=default", other).result_int(), 403u);
  Leave(workers);
  EXPECT_EQ(look()["state"], "kept");
}

TEST_F(CoordinatorHttpTest, AnArchiveIsBoundedAndNamesTheRanksThatItLeavesOut) {
  Start();
  const auto workers = Train("mnist", 3);
  // Some 0.9 MiB of each rank: two fit.
  std::thread ranks([&workers] {
    AnswerEvidence(workers, [](v1::Evidence* one) {
      for (int thread = 0; thread < 18; ++thread) {
        v1::ThreadStack* const stack = one->add_threads();
        for (int frame = 0; frame < 100; ++frame) stack->add_frames()->set_file(std::string(512, 'f'));
      }
    });
  });
  const Response archive = Post("/api/v1/jobs/mnist/stacks?format=archive");
  ranks.join();
  ASSERT_EQ(archive.result_int(), 200u) << archive.body();
  const std::string directory = ::testing::TempDir();
  std::ofstream(directory + "/asked.tar.gz", std::ios::binary) << archive.body();
  ASSERT_EQ(system(("cd '" + directory + "' && tar xzf asked.tar.gz").c_str()), 0);
  std::ifstream readme(directory + "/farandole-mnist/README.txt");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(readme), {}),
              HasSubstr("rank 2: left out: this archive takes 2097152 bytes of evidence"));
}

TEST_F(CoordinatorHttpTest, ATenantHasOneFileAtATime) {
  Start();
  const auto workers = Train("mnist", 1);
  const std::string other = MakeTenant("other");
  Response first;
  std::thread asker([&] { first = Post("/api/v1/jobs/mnist/stacks?format=archive"); });
  // The rank is asked: the archive is under way until it answers.
  const auto wanted = workers[0]->Await([](const v1::CoordinatorMessage& one) { return one.has_evidence_wanted(); });
  EXPECT_TRUE(wanted.ok()) << wanted.status();
  const Response second = Post("/api/v1/jobs/mnist/stacks?format=archive");
  EXPECT_EQ(second.result_int(), 429u);
  EXPECT_EQ(second[http::field::retry_after], "5");
  EXPECT_THAT(second.body(),
              HasSubstr("callers that see all tenants have 1 of their timelines and archives under way"));
  for (const char* file : {"timeline/file", "hang/archive"}) {
    const std::string path = absl::StrCat("/api/v1/jobs/mnist/", file);
    EXPECT_EQ(Get(path, coordinator_->token()).result_int(), 429u) << path;
    EXPECT_EQ(Get(path, other).result_int(), 404u) << path;
  }
  EXPECT_EQ(Get("/api/v1/jobs/mnist/hang", coordinator_->token()).result_int(), 200u);
  v1::WorkerMessage message;
  message.mutable_evidence()->set_epoch(1);
  message.mutable_evidence()->set_inquiry(wanted->evidence_wanted().inquiry());
  EXPECT_TRUE(workers[0]->Send(message));
  asker.join();
  EXPECT_EQ(first.result_int(), 200u);
  EXPECT_EQ(first[http::field::content_disposition], "attachment; filename=\"farandole-mnist.tar.gz\"");
  // Its place is free again, also after a refusal.
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Get("/api/v1/jobs/mnist/timeline/file", coordinator_->token()).result_int(), 404u);
}

TEST_F(CoordinatorHttpTest, ATenantHasFewAnswersAboutWholeJobsAtATime) {
  Start();
  const auto workers = Train("mnist", 1);
  const std::string other = MakeTenant("other");
  constexpr int kMost = 8;
  std::vector<Response> asked(kMost);
  std::vector<std::thread> askers;
  // The rank does not answer, so that each holds its place for seconds, and asks again. The questions below may take
  // one meanwhile.
  std::atomic<bool> is_done{false};
  for (Response& one : asked) {
    askers.emplace_back([this, &one, &is_done] {
      do one = Post("/api/v1/jobs/mnist/stacks");
      while (!is_done || one.result_int() == 429u);
    });
  }
  // Both within one of these waits.
  Response whole, hang;
  const absl::Time end = SteadyNow() + absl::Seconds(30);
  while ((whole.result_int() != 429u || hang.result_int() != 429u) && SteadyNow() < end) {
    whole = Get("/api/v1/jobs/mnist", coordinator_->token());
    hang = Get("/api/v1/jobs/mnist/hang", coordinator_->token());
  }
  EXPECT_EQ(hang.result_int(), 429u);
  EXPECT_EQ(whole[http::field::retry_after], "5");
  EXPECT_THAT(whole.body(),
              HasSubstr("callers that see all tenants have 8 of their answers about whole jobs under way"));
  EXPECT_EQ(Get("/api/v1/jobs/mnist/hang", other).result_int(), 404u) << "another tenant has its own";
  EXPECT_EQ(Get("/api/v1/jobs/mnist?view=page", coordinator_->token()).result_int(), 200u) << "pages go on";
  is_done = true;
  AnswerEvidence(workers, [](v1::Evidence*) {});
  for (std::thread& asker : askers) asker.join();
  for (const Response& one : asked) EXPECT_EQ(one.result_int(), 200u);
  EXPECT_EQ(Get("/api/v1/jobs/mnist", coordinator_->token()).result_int(), 200u);
}

TEST_F(CoordinatorHttpTest, ALookThatIsRefusedSaysWhenToComeBack) {
  options_.bytes.tenant_rate = 1 << 10;
  Start();
  const std::string other = MakeTenant("other");
  Response last;
  for (int looks = 0; looks < 100 && last.result_int() != 429u; ++looks) last = Get("/api/v1/jobs/mnist", other);
  EXPECT_EQ(last.result_int(), 429u);
  EXPECT_EQ(last[http::field::retry_after], "1");
}

TEST_F(CoordinatorHttpTest, APartOfAJobIsPaidForByTheOneForWhomItIsWritten) {
  constexpr uint32_t kWorkers = 200;
  options_.bytes.tenant_rate = (2 << 20) / kPaceBurstSeconds;
  Start();
  // How many looks a new tenant has at the workers of a job, each with `parameter` of another value.
  const auto looks = [&](const std::string& tenant, const std::string& parameter) {
    const std::string token = MakeTenant(tenant);
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      workers.push_back(Worker("mnist", i, token));
      EXPECT_TRUE(workers.back()->Join(kWorkers + 1).ok());
    }
    int count = 0;
    for (Response last; last.result_int() != 429u && count < 1000; ++count) {
      last = Get(absl::StrCat("/api/v1/jobs/mnist?view=workers&limit=500&", parameter, "=", count % kWorkers), token);
      EXPECT_THAT(last.result_int(), AnyOf(200u, 429u)) << last.body();
    }
    return count;
  };
  const int of_one_reply = looks("one", "x");
  EXPECT_LT(of_one_reply, 1000);
  EXPECT_LT(looks("many", "offset"), of_one_reply * 3 / 4) << "a copy costs an eighth";
}

TEST_F(CoordinatorHttpTest, APartThatWasWrittenBeforeIsPaidForByItsLength) {
  constexpr uint32_t kWorkers = 500;
  options_.bytes.tenant_rate = (4 << 20) / kPaceBurstSeconds;
  Start();
  const std::string token = MakeTenant("greedy");
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.push_back(Worker("mnist", i, token));
    ASSERT_TRUE(workers.back()->Join(kWorkers + 1).ok());
  }
  Response last;
  int looks = 0;
  do {
    last = Get("/api/v1/jobs/mnist?view=workers&limit=500", token);
    if (last.result_int() == 200u) {
      EXPECT_GT(last.body().size(), 64u << 10);
    }
  } while (last.result_int() == 200u && ++looks < 1000);
  EXPECT_EQ(last.result_int(), 429u) << last.body();
  EXPECT_EQ(last[http::field::retry_after], "1");
  EXPECT_GT(looks, 10);
  EXPECT_LT(looks, 500) << "at 4 KiB for each that is kept it would be some 900";
}

TEST_F(CoordinatorHttpTest, TheAuditLogHasChangesOfJobsThatThereAreOnly) {
  Start();
  Leave(Train("mnist", 1));
  for (const char* change : {"abort", "timeline?record=on", "timeline?record=off"}) {
    const Response refused = Post(absl::StrCat("/api/v1/jobs/nothing/", change));
    EXPECT_EQ(refused.result_int(), 404u) << change;
    EXPECT_THAT(refused.body(), HasSubstr("there is no job default/nothing")) << change;
  }
  EXPECT_EQ(Post("/api/v1/jobs/nothing/stacks").result_int(), 404u);
  EXPECT_EQ(AuditedChanges(), "") << "nothing was changed";
  EXPECT_EQ(Post("/api/v1/jobs/mnist/stacks").result_int(), 200u);
  EXPECT_EQ(Post("/api/v1/jobs/mnist/timeline?record=on").result_int(), 409u);
  EXPECT_EQ(AuditedChanges(),
            "POST /api/v1/jobs/*/stacks job default/mnist allowed\n"
            "POST /api/v1/jobs/*/timeline job default/mnist allowed\n"
            "POST /api/v1/jobs/*/timeline job default/mnist failed\n");
}

TEST_F(CoordinatorHttpTest, ATimelineIsStartedAndStopped) {
  Start();
  const auto workers = Train("mnist", 1);
  const auto state = [this] { return Json::parse(Get("/api/v1/jobs/mnist/timeline", coordinator_->token()).body()); };
  EXPECT_EQ(state()["recording"], 0);
  EXPECT_EQ(state()["may_record"], true);
  EXPECT_EQ(Post("/api/v1/jobs/mnist/timeline?record=maybe").result_int(), 400u);
  EXPECT_EQ(Post("/api/v1/jobs/mnist/timeline?record=on").body(),
            "{\"sentence\":\"timeline 1 of job mnist begins\"}\n");
  EXPECT_EQ(Post("/api/v1/jobs/mnist/timeline?record=on").result_int(), 409u);
  EXPECT_EQ(state()["is_on"], true);
  const Response file = Get("/api/v1/jobs/mnist/timeline/file", coordinator_->token());
  EXPECT_EQ(file[http::field::content_disposition], "attachment; filename=\"mnist-timeline.json\"");
  EXPECT_EQ(Json::parse(file.body())["traceEvents"], Json::array());
  EXPECT_EQ(Get("/api/v1/jobs/nothing/timeline", coordinator_->token()).result_int(), 404u);
}

TEST_F(CoordinatorHttpTest, AGreatTimelineIsLeftToTheCommand) {
  // Of 8 MiB each, as they say; the edge unpacks none of them.
  v1::TimelineChunk chunk;
  chunk.set_lines_zlib("x");
  chunk.set_lines_bytes(8 << 20);
  const Response refused = FileOfParts(5, chunk);
  EXPECT_EQ(refused.result_int(), 413u);
  EXPECT_THAT(refused.body(), HasSubstr("farandole timeline get mnist -o FILE fetches it"));
}

TEST_F(CoordinatorHttpTest, ATimelineWhoseFileWouldBeGreatIsLeftToTheCommand) {
  // Of each line the worker's clock makes more than three times as much.
  std::string lines;
  while (lines.size() < 7 << 20) lines += "\"ts\":0,\n";
  uLongf bytes = compressBound(lines.size());
  std::vector<Bytef> packed(bytes);
  compress(packed.data(), &bytes, reinterpret_cast<const Bytef*>(lines.data()), lines.size());
  v1::TimelineChunk chunk;
  chunk.set_lines_zlib(packed.data(), bytes);
  chunk.set_lines_bytes(static_cast<uint32_t>(lines.size()));
  chunk.set_ahead_ns(std::numeric_limits<int64_t>::max());
  chunk.set_error_ns(1);
  const Response refused = FileOfParts(2, chunk);
  EXPECT_EQ(refused.result_int(), 413u) << refused.body().size();
  EXPECT_THAT(refused.body(), HasSubstr("more than 41943040 bytes; farandole timeline get mnist -o FILE fetches it"));
}

TEST_F(CoordinatorHttpTest, AFormOfAnotherSiteChangesNothing) {
  Start();
  const auto workers = Train("mnist", 1);
  for (const char* what : {"timeline?record=on", "stacks", "abort", "drain?rank=0"}) {
    const Response refused = Post(absl::StrCat("/api/v1/jobs/mnist/", what), "http://elsewhere:7071");
    EXPECT_EQ(refused.result_int(), 403u) << what;
    EXPECT_THAT(refused.body(), HasSubstr("this request came from another site")) << what;
  }
  EXPECT_EQ(Json::parse(Get("/api/v1/jobs/mnist/timeline", coordinator_->token()).body())["recording"], 0);
}

TEST_F(CoordinatorHttpTest, ADrainWaitsForNoPage) {
  Start();
  const auto workers = Train("mnist", 2);
  std::thread reader([this] {
    // Until the edge is gone.
    try {
      while (Get("/api/v1/jobs/mnist", coordinator_->token()).result_int() != 0) continue;
    } catch (const boost::system::system_error&) {
      return;
    }
  });
  EXPECT_EQ(Get("/api/v1/jobs/mnist", coordinator_->token()).result_int(), 200u);
  coordinator_->Drain(absl::ZeroDuration());
  reader.join();
}

}  // namespace
}  // namespace farandole
