#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/job/job.h"
#include "server/job/script.h"
#include "server/job/test_shell.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of two ranks that runs.
class EvidenceCallsTest : public testing::Test {
 protected:
  // The numbers of the questions that were sent.
  std::vector<uint64_t> Ask() {
    std::vector<uint64_t> inquiries;
    for (const Output& output : shell_.Step(EvidenceRequested{shell_.NewCall(), true}).outputs) {
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_evidence_wanted())
        inquiries.push_back(send->message->evidence_wanted().inquiry());
    }
    return inquiries;
  }
  Actions Answer(size_t rank, uint64_t inquiry, const std::string& pending) {
    v1::WorkerMessage message;
    v1::Evidence* const evidence = message.mutable_evidence();
    evidence->set_epoch(1);
    evidence->set_inquiry(inquiry);
    Add(pending, v1::FlightRecord::SUBMITTED, evidence->mutable_flight());
    evidence->add_threads()->add_frames()->set_function(absl::StrCat("rank", rank));
    return shell_.Step(MessageReceived{streams_[rank], message});
  }
  static void Add(const std::string& name, v1::FlightRecord::State state, v1::FlightRecords* flight) {
    if (name.empty()) return;
    flight->add_names(name);
    v1::FlightRecord* const record = flight->add_records();
    record->set_ordinal(1);
    record->set_state(state);
    record->set_age_us(2'000'000);
    record->set_ended_after_us(2'000'000);
  }
  template <typename Response>
  static std::vector<Response> Replies(const Actions& actions) {
    std::vector<Response> replies;
    for (const Output& output : actions.outputs) {
      const auto* reply = std::get_if<Reply>(&output);
      if (reply == nullptr) continue;
      if (const auto* response = std::get_if<Response>(&reply->message)) replies.push_back(*response);
    }
    return replies;
  }

  TestShell shell_{JobOptions()};
  std::vector<StreamId> streams_ = shell_.FormEpoch(2);
};

TEST_F(EvidenceCallsTest, AllRanksAreAskedAndTheAnswerComesWithTheLast) {
  EXPECT_THAT(Ask(), ElementsAre(1, 1));
  EXPECT_TRUE(Replies<v1::DiagnoseResponse>(Answer(0, 1, "grad")).empty());
  const std::vector<v1::DiagnoseResponse> replies = Replies<v1::DiagnoseResponse>(Answer(1, 1, ""));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].sentence(),
            "rank 1 has finished nothing and has not submitted allreduce 'grad', for which rank 0 waits since 2.0 s");
  EXPECT_EQ(replies[0].ranks_size(), 2);
  EXPECT_EQ(replies[0].stacks_size(), 2);
  EXPECT_EQ(replies[0].size(), 2u);
}

TEST_F(EvidenceCallsTest, ARankThatDoesNotAnswerIsNamed) {
  Ask();
  Answer(0, 1, "grad");
  std::vector<v1::DiagnoseResponse> replies;
  // Its process lives.
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  for (int second = 0; second < 5 && replies.empty(); ++second) {
    for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, beat});
    shell_.Advance(absl::Seconds(1), [&](const Actions& actions) {
      for (const v1::DiagnoseResponse& reply : Replies<v1::DiagnoseResponse>(actions)) replies.push_back(reply);
    });
  }
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(replies[0].ranks(1).silence(), HasSubstr("did not answer within 4 s"));
  EXPECT_THAT(replies[0].sentence(), HasSubstr("rank 1 (of whose last collectives nothing is known)"));
}

TEST_F(EvidenceCallsTest, TheEndOfTheEpochAnswersTheCall) {
  Ask();
  Answer(0, 1, "grad");
  const Actions ended = shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_EQ(Replies<v1::DiagnoseResponse>(ended).size(), 1u);
}

TEST_F(EvidenceCallsTest, ALauncherTellsOfTheWorkersOfItsTokenAndOfNoOthers) {
  TestShell shell{JobOptions()};
  shell.FormEpoch(2, {"a", "b"});
  shell.Step(AbortRequested{shell.NewCall(), "enough", false});
  // Of whose workers the records are known after the report of a token.
  const auto known = [&](const std::string& token) {
    FlightReported report{shell.NewCall(), {}, token};
    for (const uint32_t rank : {0u, 1u}) {
      v1::FlightRecords* const flight = report.request.add_flights();
      flight->set_epoch(1);
      flight->set_rank(rank);
      Add("grad", v1::FlightRecord::ENDED, flight);
    }
    absl::Status status = absl::UnknownError("no reply");
    for (const Output& output : shell.Step(report).outputs) {
      if (const auto* reply = std::get_if<Reply>(&output); reply != nullptr) status = reply->status;
    }
    std::vector<uint32_t> ranks;
    const auto asked = Replies<v1::DiagnoseResponse>(shell.Step(EvidenceRequested{shell.NewCall(), true}));
    for (const v1::RankEvidence& rank : asked.at(0).ranks()) ranks.push_back(rank.rank());
    return std::make_pair(status.code(), ranks);
  };
  EXPECT_EQ(known("c"), std::make_pair(absl::StatusCode::kPermissionDenied, std::vector<uint32_t>()));
  EXPECT_EQ(known("b"), std::make_pair(absl::StatusCode::kOk, std::vector<uint32_t>({1})));
  EXPECT_EQ(known("a"), std::make_pair(absl::StatusCode::kOk, std::vector<uint32_t>({0, 1}))) << "the run is its own";
}

TEST_F(EvidenceCallsTest, WhatLaunchersReadOfDeadWorkersIsJudgedAndKept) {
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  FlightReported report{shell_.NewCall(), {}};
  report.request.set_job("mnist");
  v1::FlightRecords* const first = report.request.add_flights();
  first->set_epoch(1);
  first->set_rank(0);
  Add("grad", v1::FlightRecord::ENDED, first);
  // Of an epoch before, and of no rank: they are not of this one.
  report.request.add_flights()->set_epoch(0);
  report.request.add_flights()->set_rank(7);
  EXPECT_EQ(Replies<v1::ReportFlightResponse>(shell_.Step(report)).size(), 1u);
  FlightReported rest{shell_.NewCall(), {}};
  v1::FlightRecords* const second = rest.request.add_flights();
  second->set_epoch(1);
  second->set_rank(1);
  const std::vector<v1::ReportFlightResponse> replies = Replies<v1::ReportFlightResponse>(shell_.Step(rest));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(replies[0].sentence(), HasSubstr("rank 1 has finished nothing and has not submitted allreduce 'grad'"));
  const auto asked = Replies<v1::DiagnoseResponse>(shell_.Step(EvidenceRequested{shell_.NewCall(), true}));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].sentence(), replies[0].sentence());
  EXPECT_EQ(asked[0].ranks_size(), 2);
  const auto shown = Replies<v1::GetJobResponse>(shell_.Step(JobInspected{shell_.NewCall()}));
  EXPECT_EQ(shown[0].flight(), replies[0].sentence());
}

TEST_F(EvidenceCallsTest, OtherRecordsOfTheSameRanksAreJudgedOnceASecond) {
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  // Rank 0 has finished a tensor that rank 1 has not; the sentence.
  const auto report = [&](const std::string& name) {
    FlightReported event{shell_.NewCall(), {}};
    for (const uint32_t rank : {0u, 1u}) {
      v1::FlightRecords* const flight = event.request.add_flights();
      flight->set_epoch(1);
      flight->set_rank(rank);
      if (rank == 0) Add(name, v1::FlightRecord::ENDED, flight);
    }
    return Replies<v1::ReportFlightResponse>(shell_.Step(event)).at(0).sentence();
  };
  // A look costs no judgement either: the sentence, and the tensor that cost most.
  const auto look = [&] {
    const auto found = Replies<v1::DiagnoseResponse>(shell_.Step(EvidenceRequested{shell_.NewCall(), true}));
    const auto costs = Replies<v1::SurveyCollectivesResponse>(shell_.Step(CollectivesSurveyed{shell_.NewCall()}));
    return absl::StrCat(found.at(0).sentence(), "; cost: '", costs.at(0).costs(0).name(), "'");
  };
  EXPECT_THAT(report("first"), HasSubstr("'first'"));
  EXPECT_THAT(look(), AllOf(HasSubstr("allreduce 'first'"), HasSubstr("cost: 'first'")));
  EXPECT_EQ(report("second"), "") << "not judged yet";
  EXPECT_THAT(look(), AllOf(HasSubstr("allreduce 'first'"), HasSubstr("cost: 'first'")));
  shell_.Oversleep(absl::Seconds(1));
  EXPECT_THAT(report("third"), HasSubstr("'third'"));
  EXPECT_THAT(look(), AllOf(HasSubstr("allreduce 'third'"), HasSubstr("cost: 'third'")));
  FlightReported nothing{shell_.NewCall(), {}};
  EXPECT_THAT(Replies<v1::ReportFlightResponse>(shell_.Step(nothing)).at(0).sentence(), HasSubstr("'third'"));
}

TEST(EndedEvidenceTest, WhatTheLastLaunchersSayIsToldASecondLater) {
  TestShell shell{JobOptions()};
  shell.FormEpoch(512);
  shell.Step(AbortRequested{shell.NewCall(), "enough", false});
  const auto report = [&shell](uint32_t first, uint32_t last, const std::string& name) {
    FlightReported event{shell.NewCall(), {}};
    for (uint32_t rank = first; rank <= last; ++rank) {
      v1::FlightRecords* const flight = event.request.add_flights();
      flight->set_epoch(1);
      flight->set_rank(rank);
      flight->add_names(name);
      flight->add_records()->set_state(v1::FlightRecord::ENDED);
      flight->mutable_records(0)->set_ordinal(1);
      flight->mutable_records(0)->set_ended_after_us(2'000'000);
    }
    const Actions actions = shell.Step(event);
    return std::get<v1::ReportFlightResponse>(std::get<Reply>(actions.outputs.back()).message).sentence();
  };
  const auto shown = [&shell] {
    for (const Output& output : shell.Step(JobInspected{shell.NewCall()}).outputs) {
      if (const auto* reply = std::get_if<Reply>(&output)) return std::get<v1::GetJobResponse>(reply->message).flight();
    }
    return std::string("no reply");
  };
  const std::string before = report(0, 399, "grad");
  EXPECT_THAT(before, HasSubstr("'grad'"));
  EXPECT_EQ(report(400, 400, "loss"), "") << "the launcher is not told what is old";
  EXPECT_EQ(shown(), before) << "one rank more is not worth another judgement at once";
  EXPECT_LE(shell.next_tick(), shell.now() + absl::Seconds(1));
  shell.Oversleep(absl::Seconds(1));
  shell.Step(Ticked{});
  EXPECT_NE(shown(), before);
}

// A tensor that rank 0 waits for, and rank 1 has not submitted, is reported, and looked into.
class EvidenceOfStallTest : public EvidenceCallsTest {
 protected:
  // Time passes in which both ranks live, until questions for evidence are asked; these.
  std::vector<uint64_t> Stall(absl::Duration time) {
    std::vector<uint64_t> inquiries;
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_epoch(1);
    const auto look = [&](const Actions& actions) {
      for (const Output& output : actions.outputs) {
        const auto* send = std::get_if<Send>(&output);
        if (send == nullptr) continue;
        if (send->message->has_evidence_wanted()) inquiries.push_back(send->message->evidence_wanted().inquiry());
        if (send->message->has_stall_inquiry()) asked_ = send->message->stall_inquiry().inquiry();
      }
    };
    for (absl::Duration passed; passed < time && inquiries.empty(); passed += absl::Seconds(1)) {
      age_ += absl::Seconds(1);
      for (const StreamId stream : streams_) {
        look(shell_.Step(MessageReceived{stream, beat}));
        v1::WorkerMessage message;
        message.mutable_stall_report()->set_epoch(1);
        message.mutable_stall_report()->set_inquiry(asked_);
        if (stream == streams_[0]) {
          v1::PendingTensor* const pending = message.mutable_stall_report()->add_pending();
          pending->set_name("grad");
          pending->set_age_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(age_)));
        }
        look(shell_.Step(MessageReceived{stream, message}));
      }
      shell_.Advance(absl::Seconds(1), look);
    }
    return inquiries;
  }
  std::vector<v1::DiagnoseResponse> LastStall() {
    return Replies<v1::DiagnoseResponse>(shell_.Step(EvidenceRequested{shell_.NewCall(), true, true}));
  }
  // The status of the same question.
  absl::Status WhyNoStall() {
    for (const Output& output : shell_.Step(EvidenceRequested{shell_.NewCall(), true, true}).outputs) {
      if (const auto* reply = std::get_if<Reply>(&output)) return reply->status;
    }
    return absl::InternalError("no answer came");
  }

  absl::Duration age_;
  uint64_t asked_ = 0;
};

TEST_F(EvidenceOfStallTest, TheWorkersAreAskedOnceAndTheirAnswersAreKept) {
  EXPECT_TRUE(LastStall().empty()) << "the job has not stalled";
  ASSERT_THAT(Stall(absl::Seconds(90)), ElementsAre(1, 1));
  Answer(0, 1, "grad");
  Answer(1, 1, "");
  EXPECT_TRUE(Stall(absl::Minutes(5)).empty()) << "notices are repeated, questions are not";
  const std::vector<v1::DiagnoseResponse> kept = LastStall();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(kept[0].sentence(), HasSubstr("has not submitted allreduce 'grad'"));
  EXPECT_EQ(kept[0].stacks_size(), 2);
  EXPECT_NE(kept[0].stalled_unix_ms(), 0);
  const auto shown = Replies<v1::GetJobResponse>(shell_.Step(JobInspected{shell_.NewCall()}));
  EXPECT_EQ(shown[0].flight(), absl::StrCat("at the last stall, ", kept[0].sentence()));
  // The stacks outlive the processes.
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  const auto later = Replies<v1::DiagnoseResponse>(shell_.Step(EvidenceRequested{shell_.NewCall(), true}));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].stacks_size(), 2);
}

TEST_F(EvidenceOfStallTest, WhyNothingIsKeptIsSaid) {
  EXPECT_EQ(WhyNoStall(), absl::NotFoundError("job mnist has not stalled since this coordinator has known it"));
  ASSERT_THAT(Stall(absl::Seconds(90)), ElementsAre(1, 1));
  EXPECT_EQ(WhyNoStall(),
            absl::UnavailableError("job mnist has stalled, and its ranks are being asked; ask again in 4 s"));
  Answer(0, 1, "grad");
  Answer(1, 1, "");
  EXPECT_EQ(WhyNoStall(), absl::OkStatus());
  shell_.Restart([](const Actions&) {});
  EXPECT_EQ(WhyNoStall(),
            absl::FailedPreconditionError("job mnist has stalled before this coordinator was started, and "
                                          "what its ranks said then is gone"));
}

TEST_F(EvidenceOfStallTest, ThatNoRankAnsweredIsSaid) {
  ASSERT_THAT(Stall(absl::Seconds(90)), ElementsAre(1, 1));
  Stall(absl::Seconds(6));
  EXPECT_EQ(WhyNoStall(),
            absl::FailedPreconditionError("job mnist has stalled, and none of its ranks answered within 4 s"));
}

TEST_F(EvidenceOfStallTest, TheKeptEvidenceHasABound) {
  ASSERT_THAT(Stall(absl::Seconds(90)), ElementsAre(1, 1));
  v1::WorkerMessage message;
  v1::Evidence* const evidence = message.mutable_evidence();
  evidence->set_epoch(1);
  evidence->set_inquiry(1);
  Add("grad", v1::FlightRecord::SUBMITTED, evidence->mutable_flight());
  for (int thread = 0; thread < 40; ++thread) {
    v1::ThreadStack* const stack = evidence->add_threads();
    for (int frame = 0; frame < 100; ++frame) stack->add_frames()->set_file(std::string(300, 'x'));
  }
  shell_.Step(MessageReceived{streams_[0], message});
  Answer(1, 1, "");
  const std::vector<v1::DiagnoseResponse> kept = LastStall();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(kept[0].ranks(0).silence(), HasSubstr("left out"));
  EXPECT_TRUE(kept[0].ranks(1).has_evidence()) << "others wait for it";
}

// Which tensors cost time is asked of the ranks while somebody looks, for all that look.
class SurveyCallsTest : public EvidenceCallsTest {
 protected:
  // The questions that a look sends to ranks; its own answer, if it has one at once, is in `answers_`.
  std::vector<v1::EvidenceWanted> Look() {
    std::vector<v1::EvidenceWanted> wanted;
    const Actions actions = shell_.Step(CollectivesSurveyed{shell_.NewCall()});
    for (const Output& output : actions.outputs) {
      const auto* send = std::get_if<Send>(&output);
      if (send != nullptr && send->message->has_evidence_wanted()) wanted.push_back(send->message->evidence_wanted());
      const auto* reply = std::get_if<Reply>(&output);
      if (reply != nullptr) status_ = reply->status;
    }
    answers_ = Replies<v1::SurveyCollectivesResponse>(actions);
    return wanted;
  }
  // The answers to looks, after a rank has told of its time.
  std::vector<v1::SurveyCollectivesResponse> Tell(size_t rank, uint64_t inquiry, uint64_t waited_us) {
    v1::WorkerMessage message;
    message.mutable_evidence()->set_epoch(1);
    message.mutable_evidence()->set_inquiry(inquiry);
    v1::NameTimes* const times = message.mutable_evidence()->mutable_flight()->add_times();
    times->set_name("grad");
    times->set_finished(10);
    times->set_waited_us(waited_us);
    return Replies<v1::SurveyCollectivesResponse>(shell_.Step(MessageReceived{streams_[rank], message}));
  }
  void Live(absl::Duration time) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_epoch(1);
    for (absl::Duration passed; passed < time; passed += absl::Seconds(1)) {
      for (const StreamId stream : streams_) shell_.Step(MessageReceived{stream, beat});
      shell_.Advance(absl::Seconds(1), [&](const Actions& actions) {
        for (const auto& one : Replies<v1::SurveyCollectivesResponse>(actions)) answers_.push_back(one);
      });
    }
  }

  // Both ranks answer the first look, and rank 0 alone the second.
  void LookTwice() {
    Look();
    Tell(0, 1, 1'000);
    Tell(1, 1, 3'000);
    Live(absl::Seconds(4));
    EXPECT_EQ(Look().size(), 2u);
    EXPECT_TRUE(Tell(0, 2, 2'000).empty());
  }
  // `ended`: what answers the second look.
  void CheckThatTheFirstIsKept(const Actions& ended, const std::string& why_silent) {
    const std::vector<v1::SurveyCollectivesResponse> cut = Replies<v1::SurveyCollectivesResponse>(ended);
    ASSERT_EQ(cut.size(), 1u);
    EXPECT_EQ(cut[0].answered(), 1u);
    EXPECT_EQ(cut[0].silent(0).silence(), why_silent);
    Look();
    ASSERT_EQ(answers_.size(), 1u);
    EXPECT_EQ(answers_[0].answered(), 2u);
    EXPECT_EQ(answers_[0].costs(0).waited_us(), 4'000u);
  }

  absl::Status status_;
  std::vector<v1::SurveyCollectivesResponse> answers_;
};

TEST_F(SurveyCallsTest, TheRanksAreAskedForTimesAndNotForStacks) {
  const std::vector<v1::EvidenceWanted> wanted = Look();
  ASSERT_EQ(wanted.size(), 2u);
  EXPECT_TRUE(wanted[0].times());
  EXPECT_FALSE(wanted[0].stacks());
  EXPECT_TRUE(Tell(0, 1, 1'000).empty());
  const std::vector<v1::SurveyCollectivesResponse> answers = Tell(1, 1, 3'000);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].epoch(), 1u);
  EXPECT_EQ(answers[0].answered(), 2u);
  EXPECT_EQ(answers[0].costs(0).waited_us(), 4'000u);
  EXPECT_NE(answers[0].asked_unix_ms(), 0);
  EXPECT_FALSE(answers[0].is_over());
}

TEST_F(SurveyCallsTest, AllThatLookShareOneAnswerForFourSeconds) {
  EXPECT_EQ(Look().size(), 2u);
  for (int i = 1; i < 64; ++i) EXPECT_TRUE(Look().empty()) << i;
  EXPECT_TRUE(Look().empty());
  EXPECT_EQ(status_,
            absl::ResourceExhaustedError("64 calls ask job mnist for its collectives already; try again in 4 s"));
  Tell(0, 1, 1'000);
  EXPECT_EQ(Tell(1, 1, 3'000).size(), 64u);
  EXPECT_TRUE(Look().empty());
  EXPECT_EQ(answers_.size(), 1u) << "from what is kept";
  Live(absl::Seconds(3));
  EXPECT_TRUE(Look().empty());
  Live(absl::Seconds(1));
  EXPECT_EQ(Look().size(), 2u);
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
}

TEST_F(SurveyCallsTest, ARankThatDoesNotAnswerIsNamed) {
  Look();
  Tell(0, 1, 1'000);
  Live(absl::Seconds(5));
  ASSERT_EQ(answers_.size(), 1u);
  ASSERT_EQ(answers_[0].silent_size(), 1);
  EXPECT_EQ(answers_[0].silent(0).rank(), 1u);
  EXPECT_THAT(answers_[0].silent(0).silence(), HasSubstr("did not answer within 4 s"));
}

TEST_F(SurveyCallsTest, TheLastAnswerOutlivesTheEpoch) {
  Look();
  Tell(0, 1, 1'000);
  Tell(1, 1, 3'000);
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  EXPECT_TRUE(Look().empty());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].is_over());
  EXPECT_EQ(answers_[0].costs(0).name(), "grad");
}

TEST_F(SurveyCallsTest, NobodyWaitsForARankThatHasLeftAndTheSurveyOfAllIsKept) {
  LookTwice();
  v1::WorkerMessage leave;
  leave.mutable_leave()->set_epoch(1);
  CheckThatTheFirstIsKept(shell_.Step(MessageReceived{streams_[1], leave}), "it has left the job");
}

TEST_F(SurveyCallsTest, ASurveyThatTheEndOfTheEpochCutsShortIsNotKept) {
  LookTwice();
  CheckThatTheFirstIsKept(shell_.Step(AbortRequested{shell_.NewCall(), "enough", false}),
                          "epoch 1 ended before it answered");
}

TEST_F(SurveyCallsTest, WhereNobodyHasLookedWhatLaunchersReadIsTheAnswer) {
  shell_.Step(AbortRequested{shell_.NewCall(), "enough", false});
  Look();
  EXPECT_EQ(status_, absl::NotFoundError(
                         "no epoch of job mnist runs, and its ranks were not asked for their collectives while one "
                         "ran"));
  FlightReported report{shell_.NewCall(), {}};
  v1::FlightRecords* const flight = report.request.add_flights();
  flight->set_epoch(1);
  flight->set_rank(0);
  Add("grad", v1::FlightRecord::ENDED, flight);
  shell_.Step(report);
  Look();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].asked_unix_ms(), 0);
  EXPECT_EQ(answers_[0].costs(0).waited_us(), 2'000'000u);
}

}  // namespace
}  // namespace farandole
